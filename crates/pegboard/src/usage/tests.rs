//! What is kept, what is not, and what becomes of damage.

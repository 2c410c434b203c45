"""Which families each fold leaves out; needs nothing but the standard library."""

LEFT_OUT = {
    "one": ("metatool", "fleet_a", "box"),
    "two": ("sealtools", "fleet_b", "discord"),
    "three": ("bfcl", "fleet_c", "digitalocean"),
    "four": ("toolbench", "fleet_d", "openai"),
    "five": ("toolret", "sendgrid"),
    "six": ("livemcp_route",),
}
"""Every family is left out by one fold."""

FOLD_OF = {family: fold for fold, families in LEFT_OUT.items() for family in families}

EVERYTHING = "everything"
"""The fold that leaves nothing out."""

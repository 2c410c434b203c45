// Numbers, times and names as the console writes them.

const COUNT = new Intl.NumberFormat("en-GB");
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** Returns a whole number with separators; a dash if there is none. @param {number | null | undefined} value */
export const count = (value) => (value == null ? "–" : COUNT.format(value));

/** Returns a number in short form, such as `12.3K`. @param {number | null | undefined} value */
export const short = (value) => (value == null ? "–" : value < 10_000 ? COUNT.format(Math.round(value)) : SHORT.format(value));

/** Returns `1 tool` or `2 tools`. @param {number} value @param {string} one @param {string} [many] */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Returns a share of 1 as per cent. @param {number | null | undefined} share */
export const percent = (share) => (share == null ? "–" : `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`);

/** Returns a duration in milliseconds as a person reads it. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms == null) return "–";
  if (ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Returns a duration in microseconds. @param {number | null | undefined} us */
export const micros = (us) => duration(us == null ? null : us / 1000);

/** Returns a size in bytes. @param {number | null | undefined} bytes */
export function bytes(bytes) {
  if (bytes == null) return "–";
  const units = ["B", "KiB", "MiB", "GiB"];
  const power = Math.min(units.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

/** Returns a time of day, with the date if it is not today. @param {number | null | undefined} at Milliseconds since 1970. */
export function clock(at) {
  if (at == null) return "–";
  const date = new Date(at);
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString() ? time : `${day(at)} ${time}`;
}

/** Returns a date such as `3 Aug`. @param {number} at */
export const day = (at) => new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short" });

/** Returns an amount of money. @param {number | null | undefined} value @param {string} currency */
export function money(value, currency) {
  if (value == null) return "–";
  const digits = Math.abs(value) < 1 ? 4 : 2;
  return `${value.toLocaleString("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: digits })} ${currency}`;
}

/**
 * Returns the server and the bare name of a tool's full name.
 * @param {string} name
 * @returns {[string, string]}
 */
export function splitName(name) {
  const at = name.indexOf("___");
  return at < 0 ? ["", name] : [name.slice(0, at), name.slice(at + 3)];
}

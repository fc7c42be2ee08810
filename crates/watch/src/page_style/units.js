// Times, sizes and counts as people read them, and the steps of an axis. Nothing here touches a document.

const NANO_UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
const BYTE_UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]];

// At most three digits that matter: 1.23, 12.3, 123, 1230.
function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return String(Number(value.toFixed(size >= 10 ? 1 : 2)));
}

function inUnits(value, units) {
  const [name, factor] = units.find(([, factor]) => Math.abs(value) >= factor * 0.9995) || units[units.length - 1];
  return `${digits(value / factor)} ${name}`;
}

// 1234 -> "1.23 µs".
function formatNanos(nanos) {
  return inUnits(nanos, NANO_UNITS);
}

// A moment, to the microsecond or better: 1551234567 -> "1.551235 s".
function formatMoment(nanos) {
  const [name, factor] = NANO_UNITS.find(([, each]) => nanos >= each) || NANO_UNITS[3];
  return `${Number((nanos / factor).toFixed(factor === 1e9 ? 6 : 3))} ${name}`;
}

// 1536 -> "1.5 KiB".
function formatBytes(bytes) {
  return inUnits(bytes, BYTE_UNITS);
}

// 1234567 -> "1,234,567".
function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

// Bytes in nanoseconds -> "12.3 GB/s". Without a time there is no rate.
function formatRate(bytes, nanos) {
  return nanos > 0 ? `${digits(bytes / nanos)} GB/s` : "";
}

// The smallest of 1, 2, 5, 10, 20, ... that is at least `least`.
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999999);
  return step * power;
}

// The moments of an axis between `from` and `to` with at most `most` of them, in whole nanoseconds; each with
// its text. Moments count from 0, and there is none before. All texts of an axis have one unit and as many decimals as the step needs:
// the unit of the largest moment, or a smaller one if that would need many decimals and few digits.
function timeTicks(from, to, most) {
  const step = Math.max(1, niceStep(Math.max(to - from, 1) / Math.max(most, 1)));
  const largest = Math.max(Math.abs(from), Math.abs(to));
  const decimalsOf = (factor) => Math.max(0, Math.ceil(Math.log10(factor / step) - 1e-9));
  const units = NANO_UNITS.filter(([, factor]) => largest >= factor || factor === 1);
  const [name, scale] = units.find(([, factor]) => decimalsOf(factor) <= 2 || largest / factor >= 100) || units[0];
  const decimals = decimalsOf(scale);
  const ticks = [];
  for (let at = Math.max(0, Math.ceil(from / step) * step); at <= to; at += step) {
    ticks.push({ at, text: `${(at / scale).toFixed(decimals)} ${name}` });
  }
  return ticks;
}

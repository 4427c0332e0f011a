// Draws what `data-chart` says, with uPlot, in the colours of the theme; a page's new data go into the same picture.
const PLOTS = new Map();
const UTC = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
const HOUR = 3600;
const TIME_ROOM = 72; // pixels from a time below to the next one: the longest, to the second, is about 52 wide
const PALE = new Set(["free", "rejected"]);

function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// A colour as it would be on the page's surface if only so much of it were there; opaque, since areas overlap.
function soft(found, share) {
  const [over, under] = [found, colour("surface")].map((text) => text.match(/[\d.]+/g).map(Number));
  return `rgb(${[0, 1, 2].map((part) => Math.round(over[part] * share + under[part] * (1 - share))).join(", ")})`;
}

export function lengthText(seconds) {
  if (seconds === 0) return "0";
  if (seconds >= 2 * 86400) return `${+(seconds / 86400).toFixed(1)} d`;
  if (seconds >= HOUR) return `${+(seconds / HOUR).toFixed(1)} h`;
  if (seconds >= 60) return `${+(seconds / 60).toFixed(1)} min`;
  return `${+seconds.toFixed(1)} s`;
}

// Rounded down, as the pages write what is guaranteed (app/domain/times.py, at_least_text).
export function atLeastText(seconds) {
  const micros = Math.floor(seconds * 1e6);
  for (const [unit, size, shortest, parts] of [["d", 86400e6, 2 * 86400e6, 100], ["h", HOUR * 1e6, HOUR * 1e6, 100], ["min", 60e6, 120e6, 10]]) {
    if (micros >= shortest) return `${Math.floor((micros * parts) / size) / parts} ${unit}`;
  }
  return `${Math.floor(micros / 1e5) / 10} s`;
}

const SHOWN = {
  time: (v) => new Date(v * 1000).toISOString().slice(0, 16).replace("T", " "),
  length: lengthText,
  guaranteed: atLeastText,
  share: (v) => `${+(100 * v).toPrecision(3)} %`,
  number: (v) => String(+v.toFixed(2)),
  price: (v) => String(+v.toPrecision(3)),
};

// Areas stand on each other: each is drawn up to the sum of those before it, while the legend tells its own value.
// On an axis of powers nothing can be 0: what is below its lowest line is drawn on it.
function stacked(chart) {
  const sums = chart.x.values.map(() => 0);
  return chart.series.map((series) => {
    if (!series.stack && chart.y.lowest) return series.values.map((value) => (value === null ? null : Math.max(value, chart.y.lowest)));
    if (!series.stack) return series.values;
    return series.values.map((value, at) => (value === null ? null : (sums[at] += value)));
  });
}

function asSeries(chart, series) {
  const line = colour(series.colour);
  const show = SHOWN[series.shows ?? chart.y.kind];
  return {
    label: series.label,
    stroke: series.shape === "points" ? undefined : line,
    width: series.stack || series.thin || series.shape === "bars" ? 1 : 2,
    fill: series.stack ? soft(line, PALE.has(series.colour) ? 0.5 : 0.9) : series.shape === "bars" ? soft(line, 0.35) : undefined,
    scale: series.scale ?? "y",
    dash: series.dash,
    paths: series.shape === "step" || series.stack ? uPlot.paths.stepped({ align: 1 }) : series.shape === "bars" ? uPlot.paths.bars({ size: [0.7, 26] }) : series.shape === "points" ? () => null : undefined,
    points: { show: series.shape === "points" || series.dots === true, size: 6, fill: line, stroke: line },
    spanGaps: series.gaps === true,
    value: (plot, _, at, index) => {
      const own = index === null ? null : plot.tenure.series[at - 1].values[index];
      return own === null || own === undefined ? "–" : show(own);
    },
  };
}

function axis(kind, side, label) {
  return {
    side,
    label,
    labelSize: label ? 22 : 0,
    labelFont: "12px system-ui, sans-serif",
    font: "12px system-ui, sans-serif",
    stroke: colour("ink-2"),
    grid: { stroke: colour("line"), width: 1, show: side === 3 || side === 2 },
    ticks: { show: false },
    size: side === 3 || side === 1 ? 58 : 34,
    ...(kind === "time" && { space: TIME_ROOM }),
    values: (_, splits, __, ___, step) => axisTexts(kind, splits, step),
  };
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

// The words along an axis whose lines are `step` apart. One that says what the line before it says is left out.
export function axisTexts(kind, splits, step) {
  const texts = splits.map((at) => (at === null ? "" : kind === "time" ? timeText(at, step) : SHOWN[kind](at)));
  return texts.map((text, at) => (text === texts[at - 1] ? "" : text));
}

function timeText(at, step) {
  const date = new Date(at * 1000);
  if (step >= 28 * 86400) return `${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
  if (at % 86400 === 0) return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  return date.toISOString().slice(11, step < 60 ? 19 : 16);
}

function lengthSplits(_, __, low, high) {
  const steps = [1, 5, 15, 30, 60, 300, 900, 1800, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 86400, 2 * 86400, 5 * 86400, 10 * 86400, 30 * 86400, 90 * 86400];
  const step = steps.find((s) => (high - low) / s <= 7) ?? 365 * 86400;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

const LENGTHS = [1, 10, 60, 600, HOUR, 6 * HOUR, 86400, 5 * 86400, 30 * 86400, 365 * 86400];

// Lengths of time on an axis of powers: those that are in range, and of these no more than there is room for.
function powerSplits(room) {
  return (_, __, low, high) => {
    const found = LENGTHS.filter((at) => at >= low && at <= high);
    const step = Math.ceil(found.length / Math.max(2, Math.floor(room / 55)));
    return found.filter((_, at) => at % step === 0);
  };
}

// An axis of powers shows minutes and days side by side; `lowest` is where it begins.
function setPowers(scale, axis, lowest, room) {
  Object.assign(scale, { distr: 3, range: (_, low, high) => [lowest, Math.max(high * 1.2, lowest * 2)] });
  Object.assign(axis, { splits: powerSplits(room), filter: (_, splits) => splits });
}

// The point that the legend tells of without a pointer: the one that the chart names, or the newest with a value.
function shownFirst(plot) {
  const last = plot.data[0].length - 1;
  if (plot.tenure.x.shown !== undefined) return plot.tenure.x.shown;
  for (let at = last; at >= 0; at -= 1) if (plot.tenure.series.some((series) => series.values[at] !== null)) return at;
  return last;
}

function options(chart, width, height) {
  const x = axis(chart.x.kind, 2, chart.x.label);
  const y = axis(chart.y.kind, 3, chart.y.label);
  if (chart.x.kind === "length") x.splits = lengthSplits;
  if (chart.y.kind === "length") y.splits = lengthSplits;
  const top = (_, low, high) => [0, chart.y.most ?? (high > 0 ? high * 1.05 : 1)];
  const scales = { x: { time: chart.x.kind === "time" }, y: { range: top } };
  const axes = [x, y];
  if (chart.x.lowest) setPowers(scales.x, x, chart.x.lowest, width - 80);
  if (chart.y.lowest) setPowers(scales.y, y, chart.y.lowest, 10 * height);
  if (chart.series.some((series) => series.scale === "y2")) {
    scales.y2 = { range: (_, low, high) => [0, Math.max(1, high * (chart.y2?.room ?? 1.1))] };
    if (chart.y2?.kind) axes.push({ ...axis(chart.y2.kind, 1, chart.y2.label), scale: "y2" });
  }
  return {
    width,
    height,
    tzDate: UTC,
    scales,
    axes,
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    legend: { live: true },
    padding: [10, 26, 0, 0],
    hooks: {
      init: [(plot) => (plot.tenure = chart)],
      drawClear: [greyThin],
      draw: [markHere],
      setCursor: [(plot) => plot.cursor.idx === null && plot.setLegend({ idx: shownFirst(plot) })],
      ready: [(plot) => plot.setLegend({ idx: shownFirst(plot) })],
      setData: [(plot) => plot.setLegend({ idx: shownFirst(plot) })],
    },
    series: [{ label: chart.x.name ?? "", value: (_, v) => (v === null ? "–" : SHOWN[chart.x.kind](v)) }, ...chart.series.map((series) => asSeries(chart, series))],
  };
}

// From `thin` on, on either axis, the ground is grey: few windows speak there.
function greyThin(plot) {
  const { x, y } = plot.tenure;
  const { left, top, width, height } = plot.bbox;
  const inside = (at, low, high) => Math.min(Math.max(at, low), high);
  plot.ctx.fillStyle = colour("sunken");
  if (x.thin !== undefined) {
    const from = inside(plot.valToPos(x.thin, "x", true), left, left + width);
    plot.ctx.fillRect(from, top, left + width - from, height);
  }
  if (y.thin !== undefined) plot.ctx.fillRect(left, top, width, inside(plot.valToPos(y.thin, "y", true), top, top + height) - top);
}

// Where the cloud is now, on the axis below.
function markHere(plot) {
  if (plot.tenure.x.here === undefined) return;
  const { top, height } = plot.bbox;
  const at = plot.valToPos(plot.tenure.x.here, "x", true);
  plot.ctx.strokeStyle = colour("ink");
  plot.ctx.setLineDash([6, 4]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(at, top);
  plot.ctx.lineTo(at, top + height);
  plot.ctx.stroke();
  plot.ctx.setLineDash([]);
}

// The highest sum is painted first, so that those below it stay visible.
function order(chart) {
  const sums = stacked(chart);
  const drawn = chart.series.map((series, at) => ({ ...series, drawn: sums[at] }));
  const areas = drawn.filter((series) => series.stack).reverse();
  return [...areas, ...drawn.filter((series) => !series.stack)];
}

function prepared(holder) {
  const chart = JSON.parse(holder.dataset.chart);
  chart.series = order(chart);
  return chart;
}

function draw(holder) {
  const place = holder.querySelector(".chart-place");
  const chart = prepared(holder);
  const width = place.clientWidth;
  const height = holder.classList.contains("low") ? 190 : Math.max(220, Math.min(320, Math.round(width * 0.42)));
  place.replaceChildren();
  const plot = new uPlot(options(chart, width, height), [chart.x.values, ...chart.series.map((series) => series.drawn)], place);
  PLOTS.set(holder, { plot, text: holder.dataset.chart, width, names: chart.series.map((series) => series.label).join() });
}

function renew(holder, known) {
  if (known.text === holder.dataset.chart) return;
  const chart = prepared(holder);
  if (chart.series.map((series) => series.label).join() !== known.names) {
    draw(holder);
    return;
  }
  known.text = holder.dataset.chart;
  known.plot.tenure = chart;
  known.plot.setData([chart.x.values, ...chart.series.map((series) => series.drawn)]);
}

export function drawCharts(within) {
  for (const [holder, { plot }] of PLOTS) {
    if (!holder.isConnected) {
      plot.destroy();
      PLOTS.delete(holder);
    }
  }
  for (const holder of within.querySelectorAll("[data-chart]")) {
    const known = PLOTS.get(holder);
    if (known) renew(holder, known);
    else draw(holder);
  }
}

export function redrawCharts() {
  for (const holder of PLOTS.keys()) draw(holder);
}

let waiting = 0;
addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    for (const [holder, { width }] of PLOTS) if (holder.querySelector(".chart-place").clientWidth !== width) draw(holder);
  }, 150);
});

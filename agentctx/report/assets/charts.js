"use strict";
/* The two charts over time: the window by kind of content, and the cost. */

const CHART_HEIGHT = 250;
const MOST_LINES_OF_CUTS = 60;
const PAPER = 620;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function compact(number) {
  if (number >= 1e6) return `${+(number / 1e6).toFixed(1)}M`;
  if (number >= 1e4) return `${Math.round(number / 1e3)}k`;
  if (number >= 1e3) return `${+(number / 1e3).toFixed(1)}k`;
  return `${number}`;
}

function money(value, unit) {
  if (unit !== "USD") return Math.round(value).toLocaleString("en");
  return `$${value.toFixed(value < 1 ? 4 : 2)}`;
}

/* On paper a page is light and as wide as paper, whatever it is on the screen; `paint` draws what styles do not reach. */
function onPaper(paint) {
  const root = document.documentElement;
  let chosen = "";
  addEventListener("beforeprint", () => {
    chosen = root.dataset.theme ?? "";
    root.dataset.theme = "light";
    document.body.classList.add("on-paper");
    paint();
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = chosen;
    document.body.classList.remove("on-paper");
    paint();
  });
}

/* How wide a chart can be drawn at a place; paper is narrower than it is laid out before it is printed. */
function roomFor(place) {
  const room = place.clientWidth || 600;
  return document.body.classList.contains("on-paper") ? Math.min(room, PAPER) : room;
}

/* What both charts have in common: axes, the line at the chosen call, going to a call by a click. */
class Chart {
  constructor(place, session, go) {
    this.place = place;
    this.session = session;
    this.go = go;
    this.plot = null;
    this.call = 1;
    this.line = document.createElement("div");
    this.line.className = "chosen-call";
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    new ResizeObserver(() => {
      const width = this.place.clientWidth && roomFor(this.place);
      if (this.plot && width && width !== this.plot.width) {
        this.plot.setSize({ width, height: CHART_HEIGHT });
      }
    }).observe(place);
  }

  draw(data, series, { label, values, hooks = {}, y = {} }) {
    this.plot?.destroy();
    const ink = colour("--soft"), grid = { stroke: colour("--grid"), width: 1 }, font = "12px system-ui, sans-serif";
    const axis = { stroke: ink, grid, ticks: { ...grid, size: 5 }, font, labelFont: font, labelSize: 18, gap: 6 };
    const { count } = this.session, range = count > 1 ? [1, count] : [0.5, 1.5]; // a call by itself is as wide as the chart
    const numbers = count > 1 ? Array.from({ length: count }, (_, place) => place + 1) : range;
    const drawn = (line) => (count > 1 ? line : [line[0], line[0]]);
    const options = {
      width: roomFor(this.place),
      height: CHART_HEIGHT,
      legend: { show: false },
      padding: [14, 18, 0, 0],
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      scales: { x: { time: false, range }, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.06], ...y } },
      axes: [
        { ...axis, label: "model call", size: 30, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000], values: (_plot, at) => at.map((each) => each.toLocaleString("en")) },
        { ...axis, label, size: (_plot, shown) => 16 + 7.5 * Math.max(4, ...(shown ?? []).map((text) => text.length)), values: (_plot, at) => at.map(values) },
      ],
      series: [{}, ...series],
      hooks: { draw: [...(hooks.draw ?? []), (plot) => this.mark(this.call, plot)], setCursor: [(plot) => this.hover(plot)] },
    };
    this.plot = new uPlot(options, [numbers, ...data.map(drawn)], this.place);
    this.plot.over.append(this.line, this.tip);
    this.plot.over.addEventListener("click", () => {
      const place = this.plot.cursor.idx;
      if (place !== null && place !== undefined) this.go(Math.min(place + 1, count));
    });
  }

  hover(plot) {
    const place = plot.cursor.idx;
    const there = place !== null && place !== undefined && plot.cursor.left >= 0;
    this.tip.hidden = !there;
    if (!there) return;
    this.tip.textContent = this.told(Math.min(place, this.session.count - 1));
    const left = plot.cursor.left, width = plot.over.clientWidth;
    this.tip.style.left = `${Math.min(left + 10, Math.max(0, width - this.tip.offsetWidth - 4))}px`;
  }

  mark(call, plot = this.plot) {
    this.call = call;
    if (plot) this.line.style.transform = `translateX(${Math.round(plot.valToPos(call, "x"))}px)`;
  }
}

/* Tokens by kind, stacked, with the limit and the compactions. */
class WindowChart extends Chart {
  show(besideHistory) {
    const { calls, kinds, count } = this.session;
    const used = kinds.map((_, kind) => calls.kinds.some((sizes) => sizes[kind]));
    this.used = kinds.map((name, kind) => ({ name, kind })).filter(({ kind }) => used[kind]);
    const layers = [];
    let below = new Array(count).fill(0);
    for (const { name, kind } of this.used) {
      below = below.map((sum, place) => sum + calls.kinds[place][kind]);
      layers.push({ data: below, series: { stroke: colour("--panel"), width: count > 300 ? 0 : 0.5, fill: colour(`--${name}`), points: { show: false } } });
    }
    layers.reverse(); // each is drawn down to the ground, the highest first
    const lines = [];
    if (besideHistory) lines.push({ data: calls.given, series: { stroke: colour("--way-everything"), width: 1.5, dash: [6, 4], points: { show: false } } });
    const all = [...layers, ...lines];
    const limit = Math.max(0, ...calls.limit.filter((each) => each !== null));
    const shown = Math.max(...calls.sent, besideHistory ? Math.max(...calls.given) : 0);
    this.draw(all.map((each) => each.data), all.map((each) => each.series), {
      label: "tokens", values: compact,
      y: { range: () => [0, (limit && limit < 2.5 * shown ? Math.max(shown, limit) : shown || 1) * 1.08] },
      hooks: { draw: [(plot) => this.drawMarks(plot, limit)] },
    });
    const cuts = this.session.compactions();
    this.place.setAttribute("aria-label",
      `Area chart: tokens of the request by kind of content over ${plural(count, "model call")}; at most ${Math.max(...calls.sent).toLocaleString("en")} tokens` +
      `${limit ? ` of ${limit.toLocaleString("en")} allowed` : ""}; ${plural(cuts.length, "compaction")}${cuts.length ? `, at calls ${cuts.slice(0, 20).join(", ")}` : ""}. All numbers are in the table at the end of the page.`);
  }

  drawMarks(plot, limit) {
    const { ctx, bbox } = plot, ratio = devicePixelRatio, cuts = this.session.compactions();
    ctx.save();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    if (limit) {
      const y = plot.valToPos(limit, "y", true);
      if (y >= bbox.top) {
        ctx.strokeStyle = ctx.fillStyle = colour("--bad");
        ctx.setLineDash([5 * ratio, 4 * ratio]);
        ctx.lineWidth = ratio;
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        ctx.textAlign = "left";
        ctx.textBaseline = "bottom";
        ctx.fillText(`limit ${limit.toLocaleString("en")}`, bbox.left + 6 * ratio, y - 2 * ratio);
      }
    }
    ctx.setLineDash([]);
    ctx.fillStyle = colour("--bad");
    for (const call of this.session.faults()) {
      ctx.fillRect(plot.valToPos(call, "x", true) - 2 * ratio, bbox.top + bbox.height - 8 * ratio, 4 * ratio, 8 * ratio);
    }
    ctx.fillStyle = ctx.strokeStyle = colour("--ink");
    for (const cut of cuts) {
      const x = plot.valToPos(cut, "x", true), size = 4 * ratio, top = bbox.top - 10 * ratio;
      ctx.globalAlpha = 1;
      ctx.beginPath();
      ctx.moveTo(x - size, top);
      ctx.lineTo(x + size, top);
      ctx.lineTo(x, top + 1.6 * size);
      ctx.fill();
      if (cuts.length > MOST_LINES_OF_CUTS) continue;
      ctx.globalAlpha = 0.3;
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  told(place) {
    const { calls } = this.session;
    const cut = calls.compacted[place] ? ", compaction" : "";
    return `call ${place + 1}${cut}: ${calls.sent[place].toLocaleString("en")} of ${calls.given[place].toLocaleString("en")} tokens`;
  }
}

const WAYS = [["prepared", "as prepared"], ["trimmed", "trimming at each call"], ["everything", "full history"], ["billed", "as it was billed"]];

/* The ways whose cost is known. */
function waysOf(costs) {
  return WAYS.filter(([way]) => costs[way].length);
}

/* What all calls up to each one cost. */
class CostChart extends Chart {
  show() {
    const { costs } = this.session.data, { count } = this.session, ways = waysOf(costs);
    const series = ways.map(([way]) => ({
      stroke: colour(`--way-${way}`), width: way === "prepared" ? 2.5 : 1.75, points: { show: false },
      dash: { everything: [6, 4], trimmed: [2, 3], billed: [10, 3, 2, 3] }[way] ?? [],
    }));
    const usd = costs.unit === "USD";
    this.draw(ways.map(([way]) => costs[way]), series, {
      label: usd ? "US dollars, added up" : "full-price tokens, added up",
      values: (each) => (usd ? `$${(+each.toFixed(4)).toLocaleString("en", { maximumFractionDigits: 4 })}` : compact(each)),
    });
    const ends = ways.map(([way, name]) => `${name} ${money(costs[way][count - 1] ?? 0, costs.unit)}`);
    this.place.setAttribute("aria-label", `Line chart: cost, added up over ${plural(count, "model call")}. In the end: ${ends.join(", ")}.`);
  }

  told(place) {
    const { costs } = this.session.data;
    return `call ${place + 1}: ${waysOf(costs).map(([way]) => money(costs[way][place], costs.unit)).join(" · ")}`;
  }
}

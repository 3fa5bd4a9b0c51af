"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const byId = (id) => document.getElementById(id);
const [NUMBER, STANDING, FIDELITY, VALUES, BROKEN, CANDIDATE, REASON, ORIGIN] = [0, 1, 2, 3, 4, 5, 6, 7];
const front = new Set(data.front);
const byNumber = new Map(data.trials.map((row) => [row[NUMBER], row]));

// Texts ------------------------------------------------------------------------------------------------------------

const format = (value) => {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return Math.abs(value) >= 0.01 && Math.abs(value) < 10 ? value.toFixed(4) : value.toPrecision(4);
};
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const wrapped = (text) => {
  const lines = [""];
  for (const part of text.split(/(?<=[,;]) /)) {
    if (lines.at(-1).length + part.length > 64) lines.push("");
    lines[lines.length - 1] += part + " ";
  }
  return lines.slice(0, 12).map((line) => escaped(line.trim())).join("<br>");
};
const described = (row) =>
  `<b>trial ${row[NUMBER]}</b>, ${row[STANDING]} at ${escaped(rungName(row[FIDELITY]))}<br>` +
  data.objectives.map((goal, at) => `${escaped(goal.name)} ${format(row[VALUES][at])}`).join("<br>") +
  `<br><br>${wrapped(row[CANDIDATE])}`;

// Plots ------------------------------------------------------------------------------------------------------------

const mix = (stops, share) => {
  const place = share * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2), part = place - low;
  const channel = (hex, at) => parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16);
  const parts = [0, 1, 2].map((at) => channel(stops[low], at) * (1 - part) + channel(stops[low + 1], at) * part);
  return `rgb(${parts.map(Math.round).join(",")})`;
};
const rungColour = (fidelity) => {
  const at = data.rungs.indexOf(fidelity), last = Math.max(1, data.rungs.length - 1);
  return mix(css("--rungs").split(/\s+/), data.rungs.length === 1 ? 1 : at / last);
};
const logTicks = (values) => {
  const known = values.filter((value) => value > 0), low = Math.min(...known), high = Math.max(...known);
  const steps = high / low > 2000 ? [1] : high / low > 50 ? [1, 3] : [1, 2, 5];
  const decades = Array.from({ length: 30 }, (_, at) => at - 12);
  const tickvals = decades.flatMap((decade) => steps.map((step) => step * 10 ** decade));
  const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
  return { type: "log", tickmode: "array", tickvals, ticktext: tickvals.map((value) => compact.format(value)) };
};
const layout = (x, y) => {
  const axis = (title, logged) => ({
    title: { text: escaped(title), font: { color: css("--soft"), size: 13 }, standoff: 12 },
    type: "linear", color: css("--soft"), gridcolor: css("--line"), linecolor: css("--faint"), zeroline: false,
    showline: true, automargin: true, ticks: "outside", tickcolor: css("--faint"), exponentformat: "SI",
    tickfont: { size: 12 }, ...(logged ? logTicks(logged) : {}),
  });
  return {
    xaxis: axis(...x), yaxis: axis(...y), paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 60, r: 12, t: 8, b: 50 }, hovermode: "closest", hoverdistance: 12,
    font: { family: "system-ui, sans-serif", color: css("--ink") },
    legend: { orientation: "h", y: -0.24, x: 0, font: { size: 12, color: css("--soft") } },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--faint"), align: "left",
      font: { family: "ui-monospace, monospace", size: 12, color: css("--ink") } },
  };
};
const settings = { displaylogo: false, responsive: true, displayModeBar: false };
const rungName = (fidelity) => `${format(fidelity)} ${data.unit}${fidelity === 1 || data.unit.endsWith("s") ? "" : "s"}`;
const kindOfPlot = (count) => (count > 1500 ? "scattergl" : "scatter");

let chosenX = data.objectives.length > 1 ? 1 : -1, chosenY = 0;

function drawFront() {
  const goalX = data.objectives[chosenX], goalY = data.objectives[chosenY];
  const x = (row) => (goalX ? row[VALUES][chosenX] : row[NUMBER]), y = (row) => row[VALUES][chosenY];
  const shown = data.trials.filter((row) => row[FIDELITY] !== null && x(row) !== null && y(row) !== null);
  const trace = (rows, name, marker) => ({
    type: kindOfPlot(shown.length), mode: "markers", name, marker, x: rows.map(x), y: rows.map(y),
    hovertext: rows.map(described), hoverinfo: "text",
  });
  const rungs = data.rungs.map((fidelity) =>
    trace(shown.filter((row) => row[FIDELITY] === fidelity && !row[BROKEN] && !front.has(row[NUMBER])), escaped(rungName(fidelity)),
      { size: 7, color: rungColour(fidelity), line: { width: 1, color: css("--card") } }));
  const broken = trace(shown.filter((row) => row[BROKEN]), "breaks a constraint",
    { size: 7, symbol: "x-thin", line: { width: 1.5, color: css("--faint") } });
  const members = data.front.map((number) => byNumber.get(number)).filter((row) => row && x(row) !== null);
  members.sort((a, b) => x(a) - x(b));
  const best = { ...trace(members, goalX ? "Pareto front" : "best", { size: 11, color: css("--front"),
    line: { width: 1.5, color: css("--card") } }) };
  if (goalX && data.objectives.length === 2) {
    Object.assign(best, { mode: "lines+markers", line: { width: 1.5, color: css("--front"), dash: "dot",
      shape: goalX.maximize ? "vh" : "hv" } });
  }
  const traces = [...rungs, broken, best].filter((one) => one.x.length);
  const title = (goal) => `${goal.name} (${goal.maximize ? "more" : "less"} is better)`;
  Plotly.react("front-plot", traces, layout(goalX ? [title(goalX), goalX.log && shown.map(x)] : ["trial", null], [title(goalY), goalY.log && shown.map(y)]),
    settings);
}

let clock = "at";

function drawHistory() {
  const past = data.history, scale = clock === "at" ? clockUnit(past.at) : [3600, "device-hours"];
  const when = past[clock].map((seconds) => seconds / scale[0]);
  const traces = data.rungs.map((fidelity) => {
    const places = past.fidelity.flatMap((one, at) => (one === fidelity && past.value[at] !== null ? [at] : []));
    return {
      type: kindOfPlot(past.at.length), mode: "markers", name: escaped(rungName(fidelity)),
      x: places.map((at) => when[at]), y: places.map((at) => past.value[at]),
      marker: { size: 6, color: rungColour(fidelity), line: { width: 0.5, color: css("--card") } }, hoverinfo: "text",
      hovertext: places.map((at) => `<b>trial ${past.trial[at]}</b> at ${escaped(rungName(fidelity))}<br>${escaped(data.objectives[0].name)} ${format(past.value[at])}`),
    };
  });
  traces.push({ type: kindOfPlot(past.at.length), mode: "lines", name: "best so far", x: when, y: past.best, hoverinfo: "skip",
    line: { color: css("--front"), width: 2, shape: "hv" } });
  const goal = data.objectives[0];
  const look = layout([clock === "at" ? `time in ${scale[1]}` : scale[1], null], [goal.name, goal.log && past.value]);
  look.xaxis.rangemode = "tozero";
  Plotly.react("history-plot", traces.filter((one) => one.x.length), look, settings);
}

function clockUnit(seconds) {
  const last = seconds.at(-1) || 0;
  return last < 300 ? [1, "seconds"] : last < 14400 ? [60, "minutes"] : [3600, "hours"];
}

function offerAxes() {
  if (data.objectives.length < 3) return;
  for (const [label, get, set] of [["y", () => chosenY, (at) => (chosenY = at)], ["x", () => chosenX, (at) => (chosenX = at)]]) {
    const select = document.createElement("select");
    select.ariaLabel = `${label} axis`;
    data.objectives.forEach((goal, at) => select.add(new Option(`${label}: ${goal.name}`, at, false, at === get())));
    select.onchange = () => { set(Number(select.value)); drawFront(); };
    byId("axes").append(select, " ");
  }
}

// Table of trials --------------------------------------------------------------------------------------------------

const STEP = 50;
let limit = STEP, sorted = { by: 0, down: false }, wanted = null;
const columns = [
  ["trial", (row) => row[NUMBER], true],
  ["outcome", (row) => row[STANDING], false],
  [data.unit, (row) => row[FIDELITY], true],
  ...data.objectives.map((goal, at) => [goal.name, (row) => row[VALUES][at], true]),
  ["candidate", (row) => row[CANDIDATE], false],
];
const BAD = ["error", "crashed", "timed out", "diverged", "out of memory", "infeasible"];
const QUIET = ["duplicate", "rejected"];

const element = (tag, attributes = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
};

function selectedRows() {
  const text = byId("filter").value.toLowerCase(), get = columns[sorted.by][1];
  const rows = data.trials.filter((row) =>
    (wanted === null || row[STANDING] === wanted) &&
    (!text || `${row[CANDIDATE]} ${row[REASON]} ${row[ORIGIN]}`.toLowerCase().includes(text)));
  const compare = (a, b) => (a === null) - (b === null) || (a < b ? -1 : a > b ? 1 : 0) * (sorted.down && a !== null ? -1 : 1);
  return rows.sort((a, b) => compare(get(a), get(b)) || a[NUMBER] - b[NUMBER]);
}

function namedValues(text) {
  const parts = text.split(/((?:^|(?<=[,;] ))[^\s=,;"[\]{}]+=)/);
  return parts.map((part, at) => (at % 2 ? element("i", {}, part) : part));
}

function tableRow(row) {
  const tone = BAD.includes(row[STANDING]) || row[BROKEN] ? "bad" : QUIET.includes(row[STANDING]) ? "quiet" : "";
  const candidate = element("td", { className: "candidate" },
    element("span", { className: "clip" }, ...namedValues(row[CANDIDATE])),
    element("span", { className: "more" }, row[ORIGIN]));
  if (row[REASON]) candidate.append(element("span", { className: "clip why" }, row[REASON]));
  return element("tr", { className: front.has(row[NUMBER]) ? "front" : "" },
    element("td", { className: "number" }, String(row[NUMBER])),
    element("td", { className: `standing ${tone}` }, row[BROKEN] ? `${row[STANDING]}, breaks a constraint` : row[STANDING]),
    element("td", { className: "number" }, format(row[FIDELITY])),
    ...row[VALUES].map((value) => element("td", { className: "number" }, format(value))),
    candidate);
}

function drawTable() {
  const rows = selectedRows(), table = byId("trials");
  table.tHead.replaceChildren(element("tr", {}, ...columns.map(([name, , isNumber], at) => {
    const mark = sorted.by === at ? (sorted.down ? " ↓" : " ↑") : "";
    const sort = () => { sorted = { by: at, down: sorted.by === at ? !sorted.down : at > 2 && at < columns.length - 1 && data.objectives[at - 3].maximize }; drawTable(); };
    const head = element("th", { className: isNumber ? "number" : "" }, element("button", { type: "button", onclick: sort }, name + mark));
    head.ariaSort = sorted.by === at ? (sorted.down ? "descending" : "ascending") : "none";
    return head;
  })));
  table.tBodies[0].replaceChildren(...rows.slice(0, limit).map(tableRow));
  const left = data.left_out ? `; ${data.left_out.toLocaleString("en-US")} older trials are left out of this page` : "";
  byId("shown").textContent = `${Math.min(limit, rows.length)} of ${rows.length.toLocaleString("en-US")} shown${left}`;
  byId("more").hidden = rows.length <= limit;
}

function offerOutcomes() {
  const buttons = [[null, data.trials.length + data.left_out], ...Object.entries(data.outcomes)].map(([name, count]) => {
    const button = element("button", { type: "button" }, name ?? "all",
      element("span", { className: "count" }, count.toLocaleString("en-US")));
    button.onclick = () => { wanted = name; limit = STEP; press(); drawTable(); };
    return [button, name];
  });
  const press = () => buttons.forEach(([button, name]) => button.setAttribute("aria-pressed", name === wanted));
  byId("outcomes").append(...buttons.map(([button]) => button));
  press();
}

// Start ------------------------------------------------------------------------------------------------------------

function draw() { drawFront(); drawHistory(); }

for (const button of document.querySelectorAll("#clock button")) {
  button.onclick = () => {
    clock = button.dataset.clock;
    for (const one of document.querySelectorAll("#clock button")) one.setAttribute("aria-pressed", one === button);
    drawHistory();
  };
}
for (const table of document.querySelectorAll(".opens")) {
  table.onclick = (event) => getSelection().isCollapsed && event.target.closest("tbody tr")?.classList.toggle("open");
}
offerAxes();
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
if (byId("trials")) {
  offerOutcomes();
  byId("filter").oninput = () => { limit = STEP; drawTable(); };
  byId("more").onclick = () => { limit += 4 * STEP; drawTable(); };
  drawTable();
}

"use strict";
// Draws a drill when it is opened, finds drills, copies commands; zoom, hover and keyboard for the timelines. Without
// this script the page has every verdict, but no timelines.

document.documentElement.classList.add("scripted");

// draw unpacks what a drill shows only while it is open: markup of the page's own templates.
const drawn = new Map();
function draw(drill) {
  if (!drawn.has(drill)) drawn.set(drill, unpack(drill.querySelector(".packed")));
  return drawn.get(drill);
}

async function unpack(place) {
  const packed = Uint8Array.from(atob(place.dataset.packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  try {
    place.innerHTML = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  } catch (e) {
    place.textContent = `The rest of this drill was not drawn: this browser cannot unpack it (${e}).`;
  }
  place.removeAttribute("data-packed");
  place.querySelectorAll("figure.timeline").forEach(timeline);
}
document.addEventListener("toggle", (e) => { if (e.target.matches("details.drill[open]")) draw(e.target); }, true);

// reveal opens what the address points to: a drill, a check of it, or a part of its timeline.
async function reveal() {
  let id = location.hash.slice(1);
  try { id = decodeURIComponent(id); } catch { /* an address of somebody else's */ }
  const drill = (document.getElementById(id) || document.getElementById(id.slice(0, id.lastIndexOf("/"))))?.closest("details.drill");
  if (!drill) return;
  if (drill.hidden) show();
  drill.open = true;
  // What is drawn above it later would move it.
  await Promise.all([...document.querySelectorAll("details.drill[open]")].map(draw));
  const target = document.getElementById(id) || drill;
  for (let d = target.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
  for (const was of document.querySelectorAll(".pointed")) was.classList.remove("pointed");
  target.classList.add("pointed");
  target.scrollIntoView();
}
addEventListener("hashchange", reveal);

// find shows the drills that match, and hides the others.
const find = document.querySelector("form.find");
const drills = [...document.querySelectorAll("[data-outcome]")];
const texts = new Map(); // in lower case, made when they are needed first
function show(choice) {
  if (!find) return;
  if (!choice) find.reset();
  const form = new FormData(find);
  const words = form.get("text").toLowerCase().split(/\s+/).filter(Boolean);
  const outcomes = form.getAll("outcome");
  let shown = 0;
  for (const drill of drills) {
    if (words.length && !texts.has(drill)) texts.set(drill, drill.textContent.toLowerCase());
    drill.hidden = !outcomes.includes(drill.dataset.outcome) || (form.get("profile") && form.get("profile") !== drill.dataset.profile) || !words.every((w) => texts.get(drill).includes(w));
    if (!drill.hidden) shown++;
  }
  find.querySelector("output").textContent = `${shown} of ${drills.length} drills`;
}
if (find) {
  find.addEventListener("input", () => show(true));
  find.addEventListener("submit", (e) => {
    e.preventDefault();
    const first = drills.find((d) => !d.hidden);
    if (first) first.querySelector("summary, a")?.focus();
  });
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
    e.preventDefault();
    find.elements.text.focus();
  });
  show(true);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  let done = true;
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    getSelection().selectAllChildren(code); // the reader can copy what is selected
    done = document.execCommand("copy");
  }
  const was = [...button.childNodes];
  button.textContent = done ? "copied" : "selected";
  setTimeout(() => button.replaceChildren(...was), 1500);
});

for (const drill of document.querySelectorAll("details.drill[open]")) draw(drill);
reveal();

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-goto]");
  if (!link) return;
  event.preventDefault();
  await draw(link.closest("details.drill"));
  const figure = link.closest("details.drill").querySelector("figure.timeline");
  figure.dispatchEvent(new CustomEvent("goto", { detail: Number(link.dataset.goto) }));
});

function timeline(figure) {
  const whole = { from: Number(figure.dataset.from), span: Number(figure.dataset.span) };
  const zero = Number(figure.dataset.zero); // the history's base on this axis
  const base = Number(figure.dataset.base); // when that was, since 1970; 0 if it is unknown
  const picture = figure.querySelector(".picture");
  const axis = figure.querySelector(".axis .plot");
  const cursor = figure.querySelector(".cursor");
  const tip = figure.querySelector(".tip");
  const marks = [...figure.querySelectorAll(".mark")].map((m) => ({ at: Number(m.dataset.x), text: m.dataset.text, seq: m.dataset.seq, row: m.closest(".row") }));
  marks.sort((a, b) => a.at - b.at);
  let view = { ...whole };
  let at = 0;

  function show(from, span) {
    span = Math.min(Math.max(span, 10), whole.span);
    from = Math.min(Math.max(from, whole.from), whole.from + whole.span - span);
    view = { from, span };
    figure.style.setProperty("--from", from);
    figure.style.setProperty("--span", span);
    for (const svg of figure.querySelectorAll(".picture svg")) svg.setAttribute("viewBox", `${from} 0 ${span} ${svg.viewBox.baseVal.height}`);
    ticks();
    declutter();
  }

  function ticks() {
    const room = Math.max(3, axis.clientWidth / 110);
    let step = 1;
    for (const next of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5]) {
      step = next;
      if (view.span / step <= room) break;
    }
    axis.replaceChildren();
    for (let t = Math.ceil(view.from / step) * step; t <= view.from + view.span; t += step) {
      const tick = document.createElement("span");
      tick.className = "tick";
      tick.style.setProperty("--x", t);
      tick.textContent = (t / 1000).toFixed(step < 1000 ? 3 : 0).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "").replace("-", "−") + " s";
      axis.append(tick);
    }
  }

  // Labels that would cover an earlier one of their row, or a later mark, are
  // hidden; windows come longest first, so the longest ones keep their labels.
  function declutter() {
    for (const plot of figure.querySelectorAll(".row:not(.axis) .plot")) {
      const wide = plot.clientWidth;
      const taken = [];
      const place = (of) => ((Number(of.style.getPropertyValue("--x")) - view.from) / view.span) * wide;
      const others = [...plot.querySelectorAll(".mark:not(.window)")].map(place);
      for (const label of plot.querySelectorAll(".label")) {
        const x = place(label);
        const end = x + label.offsetWidth + 6;
        const out = x < -4 || end > wide + 6 || taken.some(([a, b]) => x < b && end > a) || others.some((o) => o > x + 6 && o < end);
        label.classList.toggle("out", out);
        if (!out) taken.push([x, end]);
      }
    }
  }

  const seconds = (ms) => (ms / 1000).toFixed(3).replace("-", "−") + " s";
  const run = (ms) => "+" + ((ms - zero) / 1000).toFixed(3) + "s";

  function textAt(t, row, reach) {
    const lines = [`${seconds(t)} after ${figure.dataset.origin} (${run(t)})`];
    if (base) lines.push(new Date(base + t - zero).toISOString().slice(11, 23) + " UTC");
    const near = marks.filter((m) => Math.abs(m.at - t) <= reach && (!row || m.row === row));
    for (const m of near.slice(0, 6)) lines.push(`${seconds(m.at)}: ${m.text}${m.seq ? " #" + m.seq : ""}`);
    if (near.length > 6) lines.push(`and ${near.length - 6} more`);
    if (!row) return lines.join("\n");
    for (const rect of row.querySelectorAll("rect")) {
      const from = rect.x.baseVal.value;
      if (t >= from && t <= from + rect.width.baseVal.value && rect.dataset.text) lines.push(rect.dataset.text);
    }
    if (row.dataset.bins) lines.push(bin(row, t));
    return lines.join("\n");
  }

  function bin(row, t) {
    const [head, ...bins] = row.dataset.bins.split(";");
    const [first, width] = head.split(",").map(Number);
    const i = Math.floor((t - first) / width);
    const found = bins.find((b) => b.startsWith(i + ":"));
    if (!found) return `no query lost in these ${width} ms`;
    const [lost, asked, unsent] = found.slice(found.indexOf(":") + 1).split("/");
    return `${lost} of ${asked} lost in these ${width} ms` + (unsent > 0 ? `, ${unsent} never left` : "");
  }

  function point(t, text, x, y) {
    at = t;
    cursor.style.setProperty("--x", t);
    cursor.style.visibility = "visible";
    tip.textContent = text;
    tip.style.display = "block";
    tip.style.left = Math.max(0, Math.min(x + 14, picture.clientWidth - tip.offsetWidth - 4)) + "px";
    tip.style.top = Math.max(0, y + 16) + "px";
  }

  function hide() {
    cursor.style.visibility = "hidden";
    tip.style.display = "none";
  }

  const plotBox = () => axis.getBoundingClientRect();
  const timeAt = (clientX) => view.from + ((clientX - plotBox().left) / plotBox().width) * view.span;

  // pointAt moves the cursor by keyboard or link, and the view if needed, and shows the
  // events of all rows.
  function pointAt(t, row) {
    t = Math.min(Math.max(t, whole.from), whole.from + whole.span);
    if (t < view.from || t > view.from + view.span) show(t - view.span / 2, view.span);
    const box = picture.getBoundingClientRect();
    const x = plotBox().left - box.left + ((t - view.from) / view.span) * plotBox().width;
    point(t, textAt(t, row, view.span / 400), x, row ? row.getBoundingClientRect().bottom - box.top : 20);
  }

  let drag = null;
  picture.addEventListener("pointerdown", (e) => {
    if (e.button !== 0 || e.pointerType === "touch") return;
    drag = { from: timeAt(e.clientX), x: e.clientX };
    picture.setPointerCapture(e.pointerId);
  });
  picture.addEventListener("pointermove", (e) => {
    const t = timeAt(e.clientX);
    if (t < view.from || t > view.from + view.span) return hide();
    const under = document.elementFromPoint(e.clientX, e.clientY);
    const row = under && under.closest(".row:not(.axis)");
    const box = picture.getBoundingClientRect();
    point(t, textAt(t, row && picture.contains(row) ? row : null, (7 / plotBox().width) * view.span), e.clientX - box.left, e.clientY - box.top);
    if (drag && Math.abs(e.clientX - drag.x) > 5) select(drag.from, t);
  });
  picture.addEventListener("pointerup", (e) => {
    const from = drag;
    drag = null;
    select();
    if (!from || Math.abs(e.clientX - from.x) <= 5) return;
    const to = timeAt(e.clientX);
    show(Math.min(from.from, to), Math.abs(to - from.from));
  });
  picture.addEventListener("pointerleave", () => { if (!drag) hide(); });
  picture.addEventListener("dblclick", () => show(whole.from, whole.span));
  picture.addEventListener("wheel", (e) => {
    if (!e.ctrlKey && !e.metaKey) return; // the wheel alone scrolls the page
    e.preventDefault();
    zoom(e.deltaY > 0 ? 1.25 : 0.8, timeAt(e.clientX));
  }, { passive: false });

  function select(a, b) {
    let area = figure.querySelector(".select");
    if (a === undefined) return area && area.remove();
    if (!area) {
      area = document.createElement("i");
      area.className = "select";
      cursor.before(area);
    }
    area.style.setProperty("--x", Math.min(a, b));
    area.style.setProperty("--w", Math.abs(b - a));
  }

  function zoom(factor, around) {
    const span = Math.min(Math.max(view.span * factor, 10), whole.span);
    show(around - ((around - view.from) * span) / view.span, span);
  }

  const inView = () => (at >= view.from && at <= view.from + view.span ? at : view.from + view.span / 2);
  const moves = {
    in: () => zoom(0.5, inView()),
    out: () => zoom(2, inView()),
    left: () => show(view.from - view.span / 4, view.span),
    right: () => show(view.from + view.span / 4, view.span),
  };
  for (const button of figure.querySelectorAll(".controls button")) {
    button.addEventListener("click", () => {
      if (button.dataset.do) moves[button.dataset.do]();
      else show(Number(button.dataset.from), Number(button.dataset.span));
    });
  }

  picture.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const step = view.span / (e.shiftKey ? 10 : 100);
    const next = marks.find((m) => m.at > at + 0.001);
    const previous = marks.findLast((m) => m.at < at - 0.001);
    const keys = {
      ArrowLeft: () => pointAt(at - step),
      ArrowRight: () => pointAt(at + step),
      "+": () => { moves.in(); pointAt(at); },
      "=": () => { moves.in(); pointAt(at); },
      "-": () => { moves.out(); pointAt(at); },
      0: () => { show(whole.from, whole.span); pointAt(at); },
      Home: () => pointAt(whole.from),
      End: () => pointAt(whole.from + whole.span),
      n: () => next && pointAt(next.at),
      p: () => previous && pointAt(previous.at),
      Escape: hide,
    };
    if (!keys[e.key]) return;
    e.preventDefault();
    keys[e.key]();
  });
  picture.addEventListener("blur", hide);

  figure.addEventListener("goto", (e) => {
    const t = e.detail;
    if (view.span > 20000) show(t - 3000, 10000);
    picture.scrollIntoView({ block: "center" });
    picture.focus({ preventScroll: true });
    pointAt(t);
  });

  figure.classList.add("live");
  figure.querySelector(".controls").hidden = false;
  // A closed drill has no width yet: labels are placed once it is opened.
  new ResizeObserver(() => { if (axis.clientWidth > 0) show(view.from, view.span); }).observe(axis);
}

"use strict";
// Draws the run from the data in the page. Nothing is fetched.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("diagram"), tip = document.getElementById("tip");
  const clock = document.getElementById("clock");
  const LEFT = 56, TOP = 26, LANE = Math.max(22, Math.min(56, 620 / Math.max(1, data.lanes.length)));
  const MARKS = { boot: "○", election: "?", leader: "★", view: "◇", suspect: "!", trust: "✓", token: "•", made: "✚",
    lost: "✗", fenced: "⊘", request: "‹" };
  let from = 0, until = data.end, hits = [], lit = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const say = (us) => Math.abs(us) < 1000 ? us + " µs" : Math.abs(us) < 1e6 ? (us / 1e3).toFixed(2) + " ms"
    : (us / 1e6).toFixed(3) + " s";
  function prepare(target, height) {
    const ratio = window.devicePixelRatio || 1, width = target.clientWidth;
    target.width = Math.round(width * ratio);
    target.height = Math.round(height * ratio);
    target.style.height = height + "px";
    const pen = target.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    return [pen, width];
  }
  function scale(width) {
    return (at) => LEFT + (at - from) / (until - from) * (width - LEFT - 8);
  }
  function axis(pen, width, height, x) {
    const rough = (until - from) / 8, power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough) || 10 * power;
    pen.strokeStyle = colour("line");
    pen.fillStyle = colour("faint");
    pen.textAlign = "center";
    for (let at = Math.ceil(from / step) * step; at <= until; at += step) {
      pen.beginPath();
      pen.moveTo(x(at), TOP - 6);
      pen.lineTo(x(at), height);
      pen.stroke();
      pen.fillText(say(at), x(at), 13);
    }
  }
  const seen = (a, b) => b >= from && a <= until;
  function draw() {
    const height = TOP + LANE * data.lanes.length + 8;
    const [pen, width] = prepare(canvas, height), x = scale(width);
    const y = (lane) => TOP + LANE * (lane + 0.5);
    hits = [];
    axis(pen, width, height, x);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT, height);
    pen.clip();
    const bar = (list, half, paint, alpha, text) => {
      pen.globalAlpha = alpha;
      pen.fillStyle = colour(paint);
      for (const item of list) {
        if (!seen(item[1], item[2])) continue;
        const left = x(item[1]), wide = Math.max(1.5, x(item[2]) - left);
        pen.fillRect(left, y(item[0]) - half, wide, 2 * half);
        hits.push([left, y(item[0]) - half, wide, 2 * half, text(item)]);
      }
      pen.globalAlpha = 1;
    };
    bar(data.leads, LANE * 0.42, "lead", 0.16, (led) => data.lanes[led[0]] + " leads, term " + led[3]);
    bar(data.down, LANE * 0.42, "down", 0.4, (gone) => data.lanes[gone[0]] + " " + gone[3] + ", " + say(gone[2] - gone[1]));
    for (let lane = 0; lane < data.lanes.length; lane++) {
      pen.strokeStyle = colour("line");
      pen.beginPath();
      pen.moveTo(LEFT, y(lane));
      pen.lineTo(width, y(lane));
      pen.stroke();
    }
    bar(data.visits, LANE * 0.22, "visit", 0.9,
      (visit) => data.lanes[visit[0]] + " is inside " + visit[3] + " for " + say(visit[2] - visit[1]) + ", from " + say(visit[1])
        + " [" + visit[4] + "]");
    const near = until - from < 1e6;
    pen.strokeStyle = colour("message");
    pen.globalAlpha = near ? 0.9 : 0.25;
    for (const [lane, sent, to, got, kind] of data.messages) {
      if (!seen(sent, got)) continue;
      pen.beginPath();
      pen.moveTo(x(sent), y(lane));
      pen.lineTo(x(got), y(to));
      pen.stroke();
      hits.push([x(got) - 3, y(to) - 3, 6, 6, kind + " from " + data.lanes[lane] + " to " + data.lanes[to] + ", " + say(got - sent)
        + " on its way"]);
    }
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    for (const [lane, at, kind, text, name] of data.marks) {
      if (!seen(at, at)) continue;
      const bad = ["suspect", "lost", "fenced"].includes(kind), token = ["token", "made"].includes(kind);
      pen.fillStyle = colour(bad ? "bad" : token ? "token" : "ink");
      pen.fillText(MARKS[kind] || "·", x(at), y(lane) - LANE * 0.22);
      hits.push([x(at) - 5, y(lane) - LANE * 0.5, 10, LANE * 0.4, data.lanes[lane] + " " + text + ", at " + say(at) + " [" + name + "]"]);
    }
    pen.strokeStyle = colour("bad");
    for (const [at, text] of data.faults) {
      if (!seen(at, at)) continue;
      pen.setLineDash([4, 3]);
      pen.beginPath();
      pen.moveTo(x(at), TOP - 4);
      pen.lineTo(x(at), height);
      pen.stroke();
      pen.setLineDash([]);
      hits.push([x(at) - 3, 0, 6, height, text + ", at " + say(at)]);
    }
    pen.strokeStyle = colour("hit");
    pen.lineWidth = 3;
    for (const [lane, at] of lit) {
      pen.beginPath();
      pen.arc(x(at), y(lane), 9, 0, 7);
      pen.stroke();
    }
    pen.lineWidth = 1;
    pen.restore();
    pen.textAlign = "right";
    pen.fillStyle = colour("ink");
    data.lanes.forEach((id, lane) => pen.fillText(id, LEFT - 10, y(lane) + 4));
    drawClock();
  }
  function drawClock() {
    if (!clock) return;
    const height = 240, [pen, width] = prepare(clock, height), x = scale(width);
    let most = 1;
    for (const [, points] of data.clock) {
      for (const [at, error] of points) if (seen(at, at)) most = Math.max(most, Math.abs(error));
    }
    const middle = (height + TOP) / 2, y = (error) => middle - error / most * (height - TOP - 16) / 2;
    axis(pen, width, height, x);
    pen.textAlign = "right";
    for (const error of [most, 0, -most]) pen.fillText(say(Math.round(error)), LEFT - 4, y(error) + 4);
    data.clock.forEach(([node, points], index) => {
      pen.strokeStyle = pen.fillStyle = "hsl(" + (index * 137) % 360 + " 65% 50%)";
      pen.beginPath();
      let last = null;
      for (const [at, error] of points) {
        const gap = last === null || at - last > data.end / 50;
        if (gap) pen.moveTo(x(at), y(error)); else pen.lineTo(x(at), y(error));
        last = at;
      }
      pen.stroke();
      pen.fillText(node, width - 8, TOP + 14 * (index % 14) + 8);
    });
  }
  function look(a, b) {
    const wide = Math.max(20, Math.min(data.end, b - a));
    from = Math.max(0, Math.min(a, data.end - wide));
    until = from + wide;
    draw();
  }
  function zoom(times, at) {
    look(at - (at - from) * times, at + (until - at) * times);
  }
  const moment = (event) => from + (event.offsetX - LEFT) / (canvas.clientWidth - LEFT - 8) * (until - from);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, moment(event));
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = [event.offsetX, from, until];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const moved = (event.offsetX - held[0]) / (canvas.clientWidth - LEFT - 8) * (held[2] - held[1]);
      look(held[1] - moved, held[2] - moved);
      return;
    }
    const hit = hits.findLast(([left, top, wide, high]) => event.offsetX >= left - 1 && event.offsetX <= left + wide + 1
      && event.offsetY >= top && event.offsetY <= top + high);
    tip.style.display = hit ? "block" : "none";
    if (hit) {
      tip.textContent = hit[4];
      tip.style.left = Math.min(event.clientX + 14, window.innerWidth - 300) + "px";
      tip.style.top = event.clientY + 14 + "px";
    }
  });
  canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; });
  canvas.addEventListener("keydown", (event) => {
    const wide = until - from, middle = (from + until) / 2;
    const act = { ArrowLeft: () => look(from - wide / 5, until - wide / 5), ArrowRight: () => look(from + wide / 5, until + wide / 5),
      "+": () => zoom(0.8, middle), "-": () => zoom(1.25, middle), "0": () => look(0, data.end) }[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
  document.querySelectorAll("[data-jump]").forEach((button) => button.addEventListener("click", () => {
    const [, at, , events] = data.violations[Number(button.dataset.jump)];
    lit = events;
    const moments = events.map((event) => event[1]).concat([at]);
    const a = Math.min(...moments), b = Math.max(...moments), edge = Math.max(2000, (b - a) * 0.3);
    look(a - edge, b + edge);
    canvas.scrollIntoView({ block: "center" });
    canvas.focus();
  }));
  document.getElementById("all").addEventListener("click", () => { lit = []; look(0, data.end); });
  document.getElementById("in").addEventListener("click", () => zoom(0.5, (from + until) / 2));
  document.getElementById("out").addEventListener("click", () => zoom(2, (from + until) / 2));
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();

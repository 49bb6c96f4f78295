"use strict";
// Draws what `report.blob_of` wrote. The chart paints only the rows in sight, so that thousands of nodes cost as much as fifty.
(() => {
  const R = JSON.parse(document.getElementById("blob").textContent);
  const at = (id) => document.getElementById(id);
  const SPAN = { PACKAGE: 0, STAGE: 1, ATTEMPT: 2, START: 3, END: 4, OUTCOME: 5 };
  const HUES = [215, 28, 275, 165, 335, 48, 190, 95]; // one per package; none is the red of failures
  const LEFT = 128, TOP = 40, AXIS = 24; // names, then times and batches above the rows
  let cr, rows, shown, from, to, top = 0, height, theme, hover = null, chosen = null;

  // --- words ---------------------------------------------------------------------------------------------------------
  const pad = (n) => String(n).padStart(2, "0");
  const clock = (s) => { s = Math.round(s); return `${Math.floor(s / 3600)}:${pad(Math.floor(s / 60) % 60)}:${pad(s % 60)}`; };
  const took = (s) => s == null ? "–" : s < 60 ? `${(+s).toFixed(s < 10 ? 1 : 0)} s` : s < 3600 ? `${Math.floor(s / 60)} min ${pad(Math.round(s % 60) % 60)} s` : `${Math.floor(s / 3600)} h ${pad(Math.floor(s / 60) % 60)} min`;
  const word = (status) => status.replaceAll("_", " ");
  const make = (tag, text, kind) => { const e = document.createElement(tag); if (text != null) e.textContent = text; if (kind) e.className = kind; return e; };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bad = (span) => span[SPAN.OUTCOME] !== "" && span[SPAN.OUTCOME] !== "succeeded";
  function ended(span) {
    const [kind, detail] = span[SPAN.OUTCOME].split(":");
    return { "": "still running", succeeded: "succeeded", failed: `failed with exit code ${detail}`, killed: `was killed (${detail})`, refused: `was refused (${detail})`, lost: "was lost in a reboot" }[kind] ?? span[SPAN.OUTCOME];
  }
  const lightness = (span) => (theme === "dark" ? [62, 44, 74, 52] : [46, 64, 36, 55])[span[SPAN.STAGE] % 4];
  const color = (span) => bad(span) ? css("--bad") : `hsl(${HUES[span[SPAN.PACKAGE] % HUES.length]} 58% ${lightness(span)}%)`;
  const onColor = (span) => (bad(span) ? theme === "dark" : lightness(span) > 50) ? "#101214" : "#ffffff";

  // --- a NodeWright's rows -------------------------------------------------------------------------------------------
  function choose(index) {
    cr = R.crs[index];
    rows = cr.nodes.map(([name, batch, compartment, spans, says]) => {
      const first = spans.length ? spans[0][SPAN.START] : Infinity;
      const last = says.length ? says[says.length - 1] : [0, "unknown", null];
      const done = last[1] === "complete" ? last[0] : Infinity;
      const picked = says.find((s) => s[1] === "in_progress");
      const ends = []; // packages that do not depend on each other run side by side: each row has as many lanes as it needs
      const lanes = spans.map((s) => { let lane = ends.findIndex((end) => end <= s[SPAN.START]); if (lane < 0) lane = ends.length; ends[lane] = s[SPAN.END]; return lane; });
      return { name, batch, compartment, spans, says, lanes, depth: Math.max(1, ends.length), status: last[1], first, start: picked ? picked[0] : first, done, failures: spans.filter(bad).length };
    });
    from = 0; to = R.end * 1.01;
    const states = at("state");
    states.replaceChildren(new Option(`all states (${rows.length})`, ""));
    const counts = new Map();
    for (const row of rows) counts.set(row.status, (counts.get(row.status) ?? 0) + 1);
    for (const [state, n] of [...counts].sort()) states.append(new Option(`${word(state)} (${n})`, state));
    if (rows.some((r) => r.failures)) states.append(new Option(`with failed attempts (${rows.filter((r) => r.failures).length})`, "!"));
    // All nodes in sight at first, however thin; the slider and the wheel make them readable one by one.
    height = Math.max(.5, Math.min(18, 550 / Math.max(rows.length, 1)));
    if (height > 3) height = Math.floor(height);
    at("height").value = height;
    at("story").hidden = true; chosen = null;
    tiles(); troubles(); legend(); failures(); batchTable(); figures(); waits(); select();
  }
  function select() {
    const text = at("filter").value.toLowerCase(), state = at("state").value;
    shown = rows.filter((r) => r.name.toLowerCase().includes(text) && (!state || (state === "!" ? r.failures : r.status === state)));
    const by = {
      name: (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }),
      start: (a, b) => a.start - b.start || by.name(a, b),
      batch: (a, b) => (a.batch ?? 1e9) - (b.batch ?? 1e9) || a.start - b.start || by.name(a, b),
      took: (a, b) => (b.done === Infinity) - (a.done === Infinity) || (b.done - b.start) - (a.done - a.start) || by.name(a, b),
      failed: (a, b) => (a.status === "complete") - (b.status === "complete") || b.failures - a.failures || by.name(a, b),
    };
    for (const row of shown) if (!isFinite(row.start)) row.start = 1e12;
    shown.sort(by[at("sort").value]);
    at("count").textContent = shown.length === rows.length ? `${rows.length} nodes` : `${shown.length} of ${rows.length} nodes`;
    resized(); scrolled(0); draw();
  }

  // --- words around the charts ---------------------------------------------------------------------------------------
  function tiles() {
    const done = rows.filter((r) => r.status === "complete").length;
    const runs = rows.reduce((n, r) => n + r.spans.length, 0), failures = rows.reduce((n, r) => n + r.failures, 0);
    const most = Math.max(0, ...load().busy);
    const entries = [
      [`${done}/${rows.length}`, "nodes complete", done === rows.length ? "good" : "bad"],
      [took(cr.finishedAt ?? R.end), cr.finishedAt == null ? "until nothing moved" : "virtual time"],
      [cr.batches.length || "–", "batches"], [most, "nodes at once, at most"], [runs, "stages run"], [failures, "failed attempts", failures ? "bad" : ""],
    ];
    at("tiles").replaceChildren(...entries.map(([value, what, kind]) => { const d = make("div", null, kind); d.append(make("b", value), make("span", what)); return d; }));
  }
  function troubles() {
    const box = at("troubles"), left = rows.filter((r) => r.status !== "complete"), groups = new Map();
    for (const row of left) {
      const [code, text, release] = R.reasons[row.says.at(-1)?.[2]] ?? ["", "", ""];
      const key = `${word(row.status)}: ${code ? code + ": " : ""}${text}${release ? "; " + release : ""}`.replace(/: $/, "");
      groups.set(key, [...(groups.get(key) ?? []), row.name]);
    }
    const list = make("ul");
    for (const [key, names] of [...groups].sort((a, b) => b[1].length - a[1].length)) {
      list.append(make("li", `${names.length} ${key} (${names.slice(0, 8).join(", ")}${names.length > 8 ? ` and ${names.length - 8} more` : ""})`));
    }
    const held = cr.conditions.filter(([type, status]) => status === "True" && type !== "Ready" && type !== "ApplyPackage");
    box.hidden = !left.length && !held.length;
    box.replaceChildren(make("h2", left.length ? `Not complete: ${left.length} of ${rows.length} nodes` : "Conditions"), list, ...held.map(([type, , message]) => make("p", `${type}: ${message}`)));
  }
  function legend() {
    const items = [];
    const item = (style, text) => { const li = make("li"), i = make("i"); i.style.background = style; li.append(i, text); items.push(li); };
    cr.packages.forEach((name, p) => cr.stages.forEach((stage, s) => { if (cr.figures.some((f) => f[0] === p && f[1] === s)) item(color([p, s, 1, 0, 0, "succeeded"]), `${name} ${stage}`); }));
    item(css("--bad"), "failed attempt"); item(css("--hold"), "picked, nothing runs"); item(css("--wait"), "waiting (thin), failed for good (thin red)");
    item(css("--good"), "complete (tick)"); item(css("--batch"), "a batch begins (dashed line)");
    at("legend").replaceChildren(...items);
  }
  function nodeButton(row) { const b = make("button", row.name); b.type = "button"; b.title = "Tell its story"; b.onclick = () => story(row); return b; }
  function failures() {
    const groups = new Map();
    for (const row of rows) for (const s of row.spans) {
      if (!bad(s)) continue;
      const key = `${cr.packages[s[SPAN.PACKAGE]]}|${cr.stages[s[SPAN.STAGE]]}|${ended(s)}`, group = groups.get(key) ?? { attempts: 0, nodes: new Set() };
      group.attempts += 1; group.nodes.add(row); groups.set(key, group);
    }
    at("failures-section").hidden = !groups.size;
    const lines = [...groups].sort((a, b) => b[1].nodes.size - a[1].nodes.size).map(([key, group]) => {
      const some = make("td"), left = [...group.nodes].filter((r) => r.status !== "complete").length;
      some.append(...[...group.nodes].slice(0, 8).map(nodeButton)); if (group.nodes.size > 8) some.append(`and ${group.nodes.size - 8} more`);
      return cells([...key.split("|"), group.attempts, left, some], "td", [3, 4]);
    });
    at("failures").replaceChildren(cells(["package", "stage", "how", "attempts", "not complete", "nodes"], "th", [3, 4]), ...lines);
  }
  function batchTable() {
    at("batches-section").hidden = !cr.batches.length;
    const lines = cr.batches.map(([begin, number, compartment]) => {
      const members = rows.filter((r) => r.batch === number && r.compartment === compartment), left = members.filter((r) => r.status !== "complete");
      const done = members.filter((r) => isFinite(r.done)), last = done.reduce((a, b) => a && a.done >= b.done ? a : b, null);
      const slow = make("td"); if (last) slow.append(nodeButton(last), took(last.done - begin));
      const tr = cells([compartment === "__default__" ? String(number) : `${compartment} ${number}`, clock(begin), members.length, left.length, slow], "td", [1, 2, 3]);
      if (left.length) tr.children[3].className = "number bad";
      return tr;
    });
    at("batches").replaceChildren(cells(["batch", "begins at", "nodes", "not complete", "last node to complete, after"], "th", [1, 2, 3]), ...lines);
  }
  const cells = (row, tag, numbers) => { const tr = make("tr"); row.forEach((value, i) => tr.append(value instanceof Node ? value : make(tag, value, numbers.includes(i) ? "number" : ""))); return tr; };
  function figures() {
    const lines = cr.figures.map(([p, s, good, failed, p50, longest]) => { const tr = cells([cr.packages[p], cr.stages[s], good, failed, took(p50), took(longest)], "td", [2, 3, 4, 5]); if (failed) tr.children[3].className = "number bad"; return tr; });
    at("figures").replaceChildren(cells(["package", "stage", "succeeded", "failed", "median", "longest"], "th", [2, 3, 4, 5]), ...lines);
  }
  function waits() {
    const sums = new Map();
    for (const row of rows) row.says.forEach(([since, status, reason], i) => {
      const code = R.reasons[reason][0], until = row.says[i + 1]?.[0] ?? R.end;
      if (status === "complete" || (!code && status === "in_progress")) return;
      const key = code || word(status), sum = sums.get(key) ?? { seconds: 0, nodes: new Set(), text: R.reasons[reason][1] };
      sum.seconds += until - since; sum.nodes.add(row.name); sums.set(key, sum);
    });
    const list = [...sums].filter(([code, s]) => s.seconds > 0 && code !== "Running").sort((a, b) => b[1].seconds - a[1].seconds), most = list[0]?.[1].seconds ?? 1;
    const lines = list.map(([code, sum]) => {
      const share = make("td", null, "unbroken"), stripe = make("span", null, "share"); stripe.style.width = `${Math.max(2, 120 * sum.seconds / most)}px`; share.append(stripe, took(sum.seconds));
      return cells([code, sum.nodes.size, took(sum.seconds / sum.nodes.size), share, sum.text], "td", [1, 2]);
    });
    at("waits").replaceChildren(cells(["reason", "nodes", "average per node", "of all nodes together", "for example"], "th", [1, 2]), ...lines);
  }
  function unstory() { at("story").hidden = true; at("gantt").focus(); }
  function story(row) {
    if (row.spans.length && (row.spans.at(-1)[SPAN.END] < from || row.first > to)) pan(row.first - from - (to - from) / 20); // what it tells of is in sight
    choosing(row);
    const box = at("story"), table = make("table"), close = make("button", "Close");
    close.onclick = unstory;
    const lines = [
      ...row.says.map(([since, status, reason]) => { const [code, text, release] = R.reasons[reason]; return [since, word(status), [code, text].filter(Boolean).join(": ") + (release ? `; ${release}` : "")]; }),
      ...row.spans.map((s) => [s[SPAN.START], `${cr.packages[s[SPAN.PACKAGE]]} ${cr.stages[s[SPAN.STAGE]]}`, `attempt ${s[SPAN.ATTEMPT]} ${ended(s)} after ${took(s[SPAN.END] - s[SPAN.START])}`]),
    ].sort((a, b) => a[0] - b[0]);
    table.append(...lines.map((l) => cells([clock(l[0]), l[1], l[2]], "td", [0])));
    const head = make("h2", `${row.name}: ${word(row.status)}${row.batch ? `, batch ${row.batch}` : ""}`);
    head.append(close); box.replaceChildren(head, table); box.hidden = false;
    box.scrollIntoView({ block: "nearest" });
  }
  function choosing(row) {
    const index = shown.indexOf(row);
    chosen = row;
    if (index >= 0) { const y = index * height; if (y < top) scrolled(y); else if (y + height > top + view()) scrolled(y + height - view()); }
    later();
  }
  function step(rowsOn) {
    if (!shown.length) return;
    const index = shown.indexOf(chosen), row = shown[Math.max(0, Math.min(shown.length - 1, index < 0 ? 0 : index + rowsOn))];
    choosing(row);
    const [code, text] = R.reasons[row.says.at(-1)?.[2]] ?? ["", ""];
    at("said").textContent = `${row.name}, ${word(row.status)}${row.batch ? `, batch ${row.batch}` : ""}${code ? `, ${code}: ${text}` : ""}${row.failures ? `, ${row.failures} failed attempts` : ""}`;
  }

  // --- drawing -------------------------------------------------------------------------------------------------------
  function brush(canvas) {
    const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight, c = canvas.getContext("2d");
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
    c.setTransform(ratio, 0, 0, ratio, 0, 0); c.clearRect(0, 0, w, h); c.font = '11px system-ui, "DejaVu Sans", sans-serif';
    return [c, w, h];
  }
  const x = (time, w) => LEFT + (time - from) / (to - from) * (w - LEFT);
  function axis(c, w, h) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];
    const step = steps.find((s) => (to - from) / s < (w - LEFT) / 90) ?? 604800;
    c.textAlign = "center"; c.textBaseline = "middle";
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const px = Math.round(x(t, w)) + .5;
      c.fillStyle = css("--grid"); c.fillRect(px, AXIS, 1, h - AXIS);
      c.fillStyle = css("--quiet"); if (px > LEFT + 14 && px < w - 22) c.fillText(clock(t), px, AXIS / 2);
    }
  }
  function batches(c, w, h, named) {
    c.strokeStyle = css("--batch"); c.fillStyle = css("--quiet"); c.textAlign = "left"; c.setLineDash([3, 3]); c.textBaseline = "middle"; c.font = '11px system-ui, "DejaVu Sans", sans-serif';
    let free = -1;
    for (const [time, number, compartment] of cr.batches) {
      const px = Math.round(x(time, w)) + .5;
      if (px < LEFT || px > w) continue;
      c.beginPath(); c.moveTo(px, AXIS); c.lineTo(px, h); c.stroke();
      if (named && px > free) { const text = compartment === "__default__" ? `batch ${number}` : `${compartment} ${number}`; c.fillText(text, px + 3, AXIS + 8); free = px + c.measureText(text).width + 10; }
    }
    c.setLineDash([]);
  }
  function draw() {
    drawLoad(); drawGantt();
  }
  function drawGantt() {
    const [c, w, h] = brush(at("gantt"));
    axis(c, w, h);
    const first = Math.max(0, Math.floor(top / height)), count = Math.ceil((h - TOP) / height) + 1;
    const ground = css("--card"), hold = css("--hold"), wait = css("--wait"), good = css("--good"), ink = css("--ink"), quiet = css("--quiet"), red = css("--bad");
    c.save(); c.beginPath(); c.rect(0, TOP, w, h - TOP); c.clip();
    const gap = height > 9 ? 2 : height > 4 ? 1 : 0, bar = height - gap;
    const every = Math.max(1, Math.ceil(13 / height));
    for (let i = first; i < Math.min(shown.length, first + count); i++) {
      const row = shown[i], y = TOP + i * height - top;
      if (hover === row || chosen === row) { c.fillStyle = css(chosen === row ? "--hold" : "--grid"); c.fillRect(LEFT, y, w, Math.max(height, 1)); }
      row.says.forEach(([since, status], k) => {
        if (status === "complete") return;
        const a = Math.max(LEFT, x(since, w)), b = Math.min(w, x(row.says[k + 1]?.[0] ?? R.end, w));
        if (b <= a) return;
        c.fillStyle = status === "in_progress" ? hold : status === "erroring" ? red : wait;
        const thin = status === "in_progress" ? 1 : bar > 6 ? .34 : 1;
        c.fillRect(a, y + bar * (1 - thin) / 2, b - a, Math.max(status === "erroring" ? 1 : Math.min(1, bar), bar * thin));
      });
      const lane = bar / row.depth;
      for (let k = 0; k < row.spans.length; k++) {
        const span = row.spans[k], sy = y + row.lanes[k] * lane;
        const a = Math.max(LEFT, x(span[SPAN.START], w)), b = Math.min(w, x(span[SPAN.END], w));
        if (b < LEFT || a > w) continue;
        c.fillStyle = color(span); c.fillRect(a, sy, Math.max(b - a, 1), bad(span) ? Math.max(1, lane) : lane > 3 ? lane - (row.depth > 1 ? .5 : 0) : lane);
        if (lane > 10 && b - a > 46) {
          c.fillStyle = onColor(span); c.textAlign = "left"; c.textBaseline = "middle"; c.font = "10px system-ui, sans-serif";
          const name = bad(span) ? `✕ ${ended(span)}` : `${cr.packages[span[SPAN.PACKAGE]].split(" ")[0]} ${cr.stages[span[SPAN.STAGE]]}`;
          c.save(); c.beginPath(); c.rect(a, sy, b - a, lane); c.clip(); c.fillText(name, a + 4, sy + lane / 2 + .5); c.restore();
        }
      }
      if (isFinite(row.done)) { const px = x(row.done, w); if (px >= LEFT) { c.fillStyle = good; c.fillRect(px, y, 2, bar); } }
      if (i % every === 0 || height >= 12) {
        c.fillStyle = ground; c.fillRect(0, y, LEFT - 2, every * height);
        c.font = '11px system-ui, "DejaVu Sans", sans-serif'; c.textAlign = "right"; c.textBaseline = "middle";
        // Where one name stands for several rows, it is that of the one somebody looks for.
        const group = height >= 12 ? [row] : shown.slice(i, i + every), named = group.find((r) => r === chosen || r === hover) ?? group.find((r) => r.status === "erroring") ?? row;
        c.fillStyle = named.status === "erroring" ? red : named === hover || named === chosen ? ink : quiet;
        if (named === chosen) c.font = 'bold 11px system-ui, "DejaVu Sans", sans-serif';
        c.fillText(fit(c, named.name, LEFT - 14), LEFT - 8, y + Math.max(bar, 11) / 2);
      }
    }
    if (!shown.length) { c.fillStyle = quiet; c.textAlign = "center"; c.fillText("no node is like that", w / 2, h / 2); }
    c.restore();
    batches(c, w, h, true);
    at("gantt").setAttribute("aria-label", `Chart of ${shown.length} nodes from ${clock(from)} to ${clock(to)}; ${rows.filter((r) => r.status === "complete").length} of ${rows.length} are complete.`);
  }
  function fit(c, text, width) {
    if (c.measureText(text).width <= width) return text;
    while (text.length > 4 && c.measureText("…" + text).width > width) text = text.slice(1);
    return "…" + text;
  }
  let kept = null;
  function load() {
    // Counts over the whole rollout, in as many steps as a wide screen has points.
    if (kept?.cr === cr) return kept;
    const n = 1400, step = R.end * 1.01 / n, busy = new Float64Array(n + 1), done = new Float64Array(n + 1), wrong = new Float64Array(n + 1), runs = new Float64Array(n + 1);
    const add = (list, a, b) => { list[Math.min(n, Math.floor(a / step))] += 1; const e = Math.floor(b / step); if (e <= n) list[e] -= 1; };
    for (const row of rows) {
      row.says.forEach(([since, status], k) => {
        const until = row.says[k + 1]?.[0] ?? R.end * 1.02;
        if (status === "in_progress") add(busy, since, until); else if (status === "complete") add(done, since, until); else if (status === "erroring") add(wrong, since, until);
      });
      for (const s of row.spans) add(runs, s[SPAN.START], s[SPAN.END]);
    }
    for (const list of [busy, done, wrong, runs]) for (let i = 1; i <= n; i++) list[i] += list[i - 1];
    return kept = { cr, step, busy, done, wrong, runs };
  }
  function drawLoad() {
    const [c, w, h] = brush(at("load"));
    const data = load(), total = Math.max(rows.length, 1), floor = h - 4;
    axis(c, w, h);
    const y = (value, most) => floor - value / most * (floor - AXIS - 12);
    const area = (list, most, fill, alpha, line) => {
      c.beginPath(); c.moveTo(LEFT, floor);
      for (let px = LEFT; px <= w; px++) { const i = Math.min(list.length - 1, Math.floor((from + (px - LEFT) / (w - LEFT) * (to - from)) / data.step)); c.lineTo(px, y(i < 0 ? 0 : list[i], most)); }
      if (line) { c.strokeStyle = fill; c.lineWidth = 1.6; c.stroke(); c.lineWidth = 1; return; }
      c.lineTo(w, floor); c.closePath(); c.globalAlpha = alpha; c.fillStyle = fill; c.fill(); c.globalAlpha = 1;
    };
    const most = Math.max(1, ...data.busy);
    area(data.done, total, css("--good"), .16); area(data.done, total, css("--good"), 1, true);
    area(data.busy, most, css("--accent"), .22); area(data.busy, most, css("--accent"), 1, true);
    if (data.wrong.some((v) => v)) area(data.wrong, total, css("--bad"), 1, true);
    batches(c, w, h, false);
    c.fillStyle = css("--card"); c.fillRect(0, 0, LEFT - 2, h);
    c.textAlign = "right"; c.textBaseline = "middle";
    const lines = [[css("--good"), `complete, of ${total}`], [css("--accent"), `in progress, of ${most}`]];
    if (data.wrong.some((v) => v)) lines.push([css("--bad"), `failed, of ${total}`]);
    lines.forEach(([style, text], i) => { c.fillStyle = style; c.fillText(text, LEFT - 8, AXIS + 16 + i * 18); });
    at("load").setAttribute("aria-label", `Nodes over ${took(R.end)}: at most ${most} in progress at once, ${data.done.at(-1)} of ${total} complete at the end.`);
  }

  // --- moving --------------------------------------------------------------------------------------------------------
  const view = () => at("gantt").clientHeight - TOP;
  function resized() { at("frame").style.height = `${Math.max(140, Math.min(600, TOP + shown.length * height + 6))}px`; at("spacer").style.height = `${shown.length * height}px`; }
  function scrolled(to) { top = Math.max(0, Math.min(to, shown.length * height - view())); if (Math.abs(at("scroll").scrollTop - top) > 1) at("scroll").scrollTop = top; }
  function zoom(factor, center) {
    const span = Math.max(5, Math.min(R.end * 1.01, (to - from) * factor)), share = (center - from) / (to - from);
    from = center - span * share; to = from + span; clamp();
  }
  function clamp() { const span = to - from, end = R.end * 1.01; if (from < 0) { from = 0; to = span; } if (to > end) { to = end; from = Math.max(0, end - span); } }
  function pan(seconds) { from += seconds; to += seconds; clamp(); }
  const timeAt = (event) => from + (event.offsetX - LEFT) / (at("gantt").clientWidth - LEFT) * (to - from);
  const rowAt = (event) => event.offsetY < TOP ? null : shown[Math.floor((event.offsetY - TOP + top) / height)] ?? null;
  let asked = false;
  const later = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; draw(); }); } };
  const gantt = at("gantt");
  gantt.addEventListener("wheel", (e) => {
    if (e.ctrlKey || e.shiftKey || e.metaKey) zoom((e.deltaY || e.deltaX) > 0 ? 1.25 : .8, timeAt(e));
    else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX / gantt.clientWidth * (to - from));
    else { const before = top; scrolled(top + e.deltaY); if (top === before) return; } // at the end of the rows the page scrolls on
    e.preventDefault(); later();
  }, { passive: false });
  let drag = null;
  gantt.addEventListener("pointerdown", (e) => { drag = { x: e.offsetX, y: e.offsetY, from, to, top, moved: false }; gantt.setPointerCapture(e.pointerId); });
  gantt.addEventListener("pointermove", (e) => {
    if (drag) {
      drag.moved ||= Math.abs(e.offsetX - drag.x) + Math.abs(e.offsetY - drag.y) > 4;
      gantt.classList.add("dragging");
      const shift = (drag.x - e.offsetX) / (gantt.clientWidth - LEFT) * (drag.to - drag.from);
      from = drag.from + shift; to = drag.to + shift; clamp(); scrolled(drag.top + drag.y - e.offsetY); later();
      return;
    }
    const row = rowAt(e);
    if (row !== hover) { hover = row; later(); }
    tell(e, row);
  });
  gantt.addEventListener("pointerup", (e) => { const clicked = drag && !drag.moved; drag = null; gantt.classList.remove("dragging"); const row = rowAt(e); if (clicked && row) story(row); });
  gantt.addEventListener("pointerleave", () => { hover = null; at("tip").hidden = true; later(); });
  function tell(e, row) {
    const tip = at("tip");
    if (!row) { tip.hidden = true; return; }
    const time = timeAt(e), lines = [`${row.name}${row.batch ? ` · batch ${row.batch}` : ""} · ${clock(Math.max(0, time))}`];
    const spans = row.spans.filter((s) => s[SPAN.START] <= time && time <= s[SPAN.END]);
    const said = row.says.findLast((s) => s[0] <= time);
    if (spans.length) for (const span of spans) lines.push(`${cr.packages[span[SPAN.PACKAGE]]} ${cr.stages[span[SPAN.STAGE]]}, attempt ${span[SPAN.ATTEMPT]}: ${ended(span)}, ${took(span[SPAN.END] - span[SPAN.START])}`);
    else if (said) { const [code, text] = R.reasons[said[2]]; lines.push(`${word(said[1])}${code ? ` – ${code}: ${text}` : ""}`); }
    tip.textContent = lines.join("\n"); tip.hidden = false;
    const box = at("frame").getBoundingClientRect();
    tip.style.left = `${Math.min(e.offsetX + 14, box.width - tip.offsetWidth - 16)}px`;
    tip.style.top = `${e.offsetY + 18 + tip.offsetHeight > box.height ? e.offsetY - tip.offsetHeight - 10 : e.offsetY + 18}px`;
  }
  gantt.addEventListener("keydown", (e) => {
    const acts = { ArrowUp: () => step(-1), ArrowDown: () => step(1), PageUp: () => step(-Math.max(1, Math.floor(view() / height))), PageDown: () => step(Math.max(1, Math.floor(view() / height))), Home: () => step(-1e9), End: () => step(1e9), Enter: () => { if (chosen) story(chosen); }, ArrowLeft: () => pan((from - to) / 10), ArrowRight: () => pan((to - from) / 10), "+": () => zoom(.8, (from + to) / 2), "=": () => zoom(.8, (from + to) / 2), "-": () => zoom(1.25, (from + to) / 2), 0: () => { from = 0; to = R.end * 1.01; } };
    if (acts[e.key]) { acts[e.key](); e.preventDefault(); later(); }
  });
  addEventListener("keydown", (e) => { if (e.key === "Escape" && !at("story").hidden) unstory(); });
  at("scroll").addEventListener("scroll", () => { top = at("scroll").scrollTop; later(); });
  at("in").onclick = () => { zoom(.6, (from + to) / 2); draw(); };
  at("out").onclick = () => { zoom(1 / .6, (from + to) / 2); draw(); };
  at("all").onclick = () => { from = 0; to = R.end * 1.01; draw(); };
  at("height").oninput = (e) => { const share = top / height; height = +e.target.value; resized(); scrolled(share * height); draw(); };
  for (const id of ["state", "sort"]) at(id).onchange = select;
  at("filter").oninput = select;
  addEventListener("resize", () => { scrolled(top); later(); });

  // --- light and dark ------------------------------------------------------------------------------------------------
  function shade(name) {
    theme = name; document.documentElement.dataset.theme = name;
    at("theme").textContent = name === "dark" ? "Light" : "Dark"; at("theme").setAttribute("aria-pressed", String(name === "dark"));
    if (cr) { legend(); draw(); } // at once, since a printer does not wait
  }
  let screen = null; // paper is white
  addEventListener("beforeprint", () => { screen = theme; shade("light"); });
  addEventListener("afterprint", () => { if (screen) shade(screen); screen = null; });
  at("theme").onclick = () => shade(theme === "dark" ? "light" : "dark");

  // --- begin ---------------------------------------------------------------------------------------------------------
  at("title").textContent = R.title;
  const verdict = at("verdict");
  verdict.append(make("b", R.succeeded ? "Every node is complete" : R.ending === "time" ? "Not complete within the virtual time" : "Not complete, and nothing moves any more", R.succeeded ? "good" : "bad"), ` · simulated, ${took(R.end)} of virtual time, seed ${R.seed}`);
  R.crs.forEach((one, i) => at("cr").append(new Option(`${one.name} (${one.status})`, i)));
  at("choose-cr").hidden = R.crs.length < 2;
  at("cr").onchange = (e) => choose(+e.target.value);
  at("notes").replaceChildren(...R.notes.map((text) => make("p", text)));
  const wanted = new URLSearchParams(location.search).get("theme") ?? location.hash.replace("#", "");
  shade(wanted === "dark" || wanted === "light" ? wanted : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  if (R.crs.length) choose(0);
  document.documentElement.dataset.ready = "true";
})();

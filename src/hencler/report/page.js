"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const { rows, names } = data;
  const MARKS = 8;
  const canvases = [...document.querySelectorAll("canvas[data-panel]")];
  const tip = $("tip");

  // --- colours: one source, the style sheet ------------------------------------------------

  let style;
  const css = (name) => style.getPropertyValue(name).trim();
  const readColours = () => { style = getComputedStyle(document.documentElement); };
  const rgb = (name) => {
    const hex = css(name).slice(1);
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
  };
  const colourOf = (c) => css(`--c${c % MARKS}`);
  // Cividis: even steps of lightness, the same to colour-blind eyes.
  const STOPS = [[0, 34, 78], [53, 69, 108], [102, 105, 112], [148, 142, 119], [200, 184, 102], [254, 232, 56]];
  const ramp = (t) => {
    const x = Math.min(Math.max(t, 0), 1) * (STOPS.length - 1);
    const i = Math.min(Math.floor(x), STOPS.length - 2);
    return STOPS[i].map((v, j) => Math.round(v + (x - i) * (STOPS[i + 1][j] - v)));
  };

  // --- elements, always by text, never by markup --------------------------------------------

  const element = (tag, className, ...children) => {
    const e = document.createElement(tag);
    if (className) e.className = className;
    e.append(...children);
    return e;
  };
  const chip = (c, name) => element("span", `chip k${c % MARKS}`,
    element("span", `dot s${Math.floor(c / MARKS) % 4}`), name);

  // --- what is known of a node --------------------------------------------------------------

  const mapOf = new Map(data.map.row.map((row, i) => [row, i]));
  const describe = (row) => {
    const lines = [`cluster ${names[rows.cluster[row]]}`];
    if (rows.class) lines.push(`class ${rows.class[row] < 0 ? "unknown" : rows.classes[rows.class[row]]}`);
    if (rows.sure) lines.push(`certainty ${(rows.sure[row] / 1000).toFixed(2)}, next nearest ${names[rows.next[row]]}`);
    if (rows.stable && rows.stable[row] >= 0) lines.push(`stability ${(rows.stable[row] / 100).toFixed(2)} over seeds`);
    lines.push(rows.in ? `links: ${rows.out[row]} out, ${rows.in[row]} in` : `${rows.out[row]} links`);
    const at = mapOf.get(row);
    if (at !== undefined && data.map.values)
      for (const [j, value] of data.map.values[at]) lines.push(`${data.map.attributes[j]} = ${value}`);
    return lines;
  };
  const showTip = (x, y, title, lines) => {
    tip.replaceChildren(element("b", "", title), ...lines.map((l) => element("div", "", l)));
    tip.hidden = false;
    const left = Math.min(x + 14, scrollX + document.documentElement.clientWidth - tip.offsetWidth - 8);
    const below = y + 14 + tip.offsetHeight < scrollY + innerHeight;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${below ? y + 14 : y - tip.offsetHeight - 10}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  // --- map ------------------------------------------------------------------------------------

  const PAD = 26;
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const state = { by: "cluster", layout: $("layout").value, hidden: new Set(), selected: -1, hover: -1 };
  // Colours by a number instead of a group: where it is, and its position between dark and bright.
  const SCALES = { sure: (row) => (rows.sure[row] / 1000 + 0.2) / 1.2, stable: (row) => rows.stable[row] / 100 };
  const groupOf = (row) => (state.by === "class" ? rows.class[row] : rows.cluster[row]);
  const placesOf = (panel) => data.map.panels[panel][state.layout];
  const visible = (i) => i < placesOf(0).x.length && (state.by in SCALES || !state.hidden.has(groupOf(data.map.row[i])));
  const place = (canvas, i) => {
    const panel = placesOf(canvas.dataset.panel);
    const w = canvas.clientWidth - 2 * PAD, h = canvas.clientHeight - 2 * PAD;
    return [PAD + (panel.x[i] / 10000) * w, PAD + (1 - panel.y[i] / 10000) * h];
  };
  const prepare = (canvas) => {
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * scale);
    canvas.height = Math.round(canvas.clientHeight * scale);
    const g = canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    return g;
  };
  const mark = (g, x, y, r, shape) => {
    g.beginPath();
    if (shape === 1) g.rect(x - 0.88 * r, y - 0.88 * r, 1.76 * r, 1.76 * r);
    else if (shape === 2) { g.moveTo(x, y - 1.25 * r); g.lineTo(x + 1.25 * r, y); g.lineTo(x, y + 1.25 * r); g.lineTo(x - 1.25 * r, y); g.closePath(); }
    else if (shape === 3) { g.moveTo(x, y - 1.2 * r); g.lineTo(x + 1.15 * r, y + 0.9 * r); g.lineTo(x - 1.15 * r, y + 0.9 * r); g.closePath(); }
    else g.arc(x, y, r, 0, 2 * Math.PI);
  };
  const paint = (i) => {
    const row = data.map.row[i];
    if (state.by === "stable" && rows.stable[row] < 0) return css("--line");
    if (state.by in SCALES) return `rgb(${ramp(SCALES[state.by](row)).join(",")})`;
    const group = groupOf(row);
    return group < 0 ? css("--edge") : colourOf(group);
  };
  const drawMap = (canvas) => {
    const g = prepare(canvas);
    const n = placesOf(0).x.length;
    g.fillStyle = css("--surface");
    g.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const r = n < 400 ? 4.6 : n < 1500 ? 3.4 : 2.4;
    const middle = new Map();
    g.lineWidth = 0.8;
    g.strokeStyle = css("--surface");
    for (let i = 0; i < n; i++) {
      if (!visible(i)) continue;
      const [x, y] = place(canvas, i);
      const group = groupOf(data.map.row[i]);
      g.globalAlpha = 0.82;
      g.fillStyle = paint(i);
      mark(g, x, y, r, state.by in SCALES ? 0 : Math.floor(Math.max(group, 0) / MARKS) % 4);
      g.fill();
      if (n < 1500) g.stroke();
      if (group >= 0) {
        if (!middle.has(group)) middle.set(group, [[], []]);
        middle.get(group)[0].push(x);
        middle.get(group)[1].push(y);
      }
    }
    g.globalAlpha = 1;
    if (!(state.by in SCALES)) label(g, middle);
    for (const i of [state.hover, state.selected]) {
      if (i < 0 || i >= n) continue;
      const [x, y] = place(canvas, i);
      g.strokeStyle = css("--text");
      g.lineWidth = 2.5;
      mark(g, x, y, r + 4, 0);
      g.stroke();
    }
  };
  const label = (g, middle) => {
    // A name at the median of each group, so that colour is never the only sign.
    const text = state.by === "class" ? rows.classes : names;
    const median = (v) => v.sort((a, b) => a - b)[v.length >> 1];
    g.font = "700 16px system-ui, sans-serif";
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.lineJoin = "round";
    if (middle.size > 30) return;
    for (const [group, [xs, ys]] of middle) {
      // The name of a few nodes stands beside them, not on them.
      const x = median(xs), y = median(ys) + (xs.length > 5 ? 0 : median(ys) < 40 ? 15 : -15);
      const short = text[group].length > 14 ? `${text[group].slice(0, 13)}…` : text[group];
      g.strokeStyle = css("--surface");
      g.lineWidth = 6;
      g.strokeText(short, x, y);
      g.fillStyle = css("--text");
      g.fillText(short, x, y);
    }
  };
  const drawMaps = () => canvases.forEach(drawMap);
  const nearest = (canvas, x, y) => {
    let best = -1, least = 14 * 14;
    for (let i = 0; i < data.map.row.length; i++) {
      if (!visible(i)) continue;
      const [a, b] = place(canvas, i);
      const d = (a - x) ** 2 + (b - y) ** 2;
      if (d < least) { least = d; best = i; }
    }
    return best;
  };
  const say = (i) => { $("said").textContent = [rows.id[data.map.row[i]], ...describe(data.map.row[i])].join(", "); };
  for (const canvas of canvases) {
    canvas.addEventListener("pointermove", (event) => {
      const i = nearest(canvas, event.offsetX, event.offsetY);
      if (i !== state.hover) { state.hover = i; drawMaps(); }
      if (i < 0) hideTip();
      else showTip(event.pageX, event.pageY, rows.id[data.map.row[i]], describe(data.map.row[i]));
    });
    canvas.addEventListener("pointerleave", () => { state.hover = -1; hideTip(); drawMaps(); });
    canvas.addEventListener("click", () => { state.selected = state.hover; drawMaps(); });
    canvas.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      walk(canvas, step);
    });
    canvas.addEventListener("blur", hideTip);
  }
  let order = null;
  const walk = (canvas, step) => {
    order ??= data.map.row.map((_, i) => i).sort((a, b) => rows.cluster[data.map.row[a]] - rows.cluster[data.map.row[b]] || data.map.row[a] - data.map.row[b]);
    const shown = order.filter(visible);
    if (!shown.length) return;
    const at = shown.indexOf(state.selected);
    const i = shown[at < 0 ? 0 : (at + step + shown.length) % shown.length];
    state.selected = i;
    drawMaps();
    const [x, y] = place(canvas, i), box = canvas.getBoundingClientRect();
    showTip(scrollX + box.left + x, scrollY + box.top + y, rows.id[data.map.row[i]], describe(data.map.row[i]));
    say(i);
  };
  const select = (row) => {
    const i = mapOf.get(row);
    if (i === undefined) return;
    // A node that only the larger map has is shown there.
    if (i >= placesOf(0).x.length) { $("layout").value = "plane"; setLayout(); }
    state.selected = i;
    drawMaps();
    $("map").scrollIntoView();
    say(i);
  };
  const legend = () => {
    const box = $("legend");
    box.replaceChildren();
    const meaning = { sure: "dark: between clusters, bright: near its own centre", stable: "dark: in other clusters with other seeds, bright: always in its own" }[state.by];
    if (meaning) { box.append(element("span", "note", meaning)); return; }
    const text = state.by === "class" ? rows.classes : names;
    if (text.length > 60) return;
    text.forEach((name, group) => {
      const button = element("button", "", chip(group, name));
      button.type = "button";
      button.setAttribute("aria-pressed", String(!state.hidden.has(group)));
      button.addEventListener("click", () => {
        state.hidden.has(group) ? state.hidden.delete(group) : state.hidden.add(group);
        button.setAttribute("aria-pressed", String(!state.hidden.has(group)));
        drawMaps();
      });
      box.append(button);
    });
  };
  const setLayout = () => {
    state.layout = $("layout").value;
    for (const note of document.querySelectorAll("[data-layout]")) note.hidden = note.dataset.layout !== state.layout;
  };
  $("layout").addEventListener("change", () => { setLayout(); state.hover = -1; drawMaps(); });
  $("colour").addEventListener("change", (event) => {
    state.by = event.target.value;
    state.hidden.clear();
    legend();
    drawMaps();
  });

  // --- heat map -------------------------------------------------------------------------------

  const heat = $("heat");
  const BAND = 16;
  const layer = () => data.heat.layers[$("layer") ? +$("layer").value : data.heat.shown];
  const drawHeat = () => {
    if (!heat) return;
    const { row } = data.heat, m = row.length;
    const { level, end, sign, relative } = layer();
    const small = document.createElement("canvas");
    small.width = small.height = m;
    const pixels = new ImageData(m, m);
    const [less, none, more] = ["--heat-less", "--surface", "--heat-more"].map(rgb);
    level.forEach((value, i) => {
      const to = value < 0 ? less : more, t = Math.abs(value) / 100;
      pixels.data.set([...none.map((v, j) => Math.round(v + t * (to[j] - v))), 255], 4 * i);
    });
    small.getContext("2d").putImageData(pixels, 0, 0);
    const g = prepare(heat), side = heat.clientWidth - BAND;
    g.imageSmoothingEnabled = false;
    g.drawImage(small, BAND, BAND, side, side);
    const cell = side / m;
    for (let start = 0, i = 1; i <= m; i++) {
      const c = rows.cluster[row[start]];
      if (i < m && rows.cluster[row[i]] === c) continue;
      const from = BAND + start * cell, length = (i - start) * cell;
      g.fillStyle = colourOf(c);
      g.fillRect(from, 0, length - 1, BAND - 3);
      g.fillRect(0, from, BAND - 3, length - 1);
      g.fillStyle = css("--surface");
      if (i < m) { g.fillRect(from + length - 1, BAND, 1, side); g.fillRect(BAND, from + length - 1, side, 1); }
      if (length > 18) {
        g.font = "700 11px system-ui, sans-serif";
        g.textAlign = "center";
        g.textBaseline = "middle";
        const name = names[c].slice(0, 6);
        g.fillText(name, from + length / 2, (BAND - 3) / 2 + 0.5);
        g.save();
        g.translate((BAND - 3) / 2, from + length / 2);
        g.rotate(-Math.PI / 2);
        g.fillText(name, 0, 0.5);
        g.restore();
      }
      start = i;
    }
    const times = relative ? "×" : "";
    const reach = relative ? [2 ** -end, 2 ** end] : [sign === "positive" ? 0 : -end, end];
    $("heat-low").textContent = times + Number(reach[0].toPrecision(2));
    $("heat-high").textContent = times + Number(reach[1].toPrecision(2));
    document.querySelector(".heatscale").classList.toggle("positive", sign === "positive");
  };
  if (heat) {
    heat.addEventListener("pointermove", (event) => {
      const m = data.heat.row.length, cell = (heat.clientWidth - BAND) / m;
      const i = Math.floor((event.offsetY - BAND) / cell), j = Math.floor((event.offsetX - BAND) / cell);
      if (i < 0 || j < 0 || i >= m || j >= m) { hideTip(); return; }
      const { values, top, name } = layer();
      const at = (a, b) => ((values[a * m + b] / 10000) * top).toPrecision(3);
      const [u, v] = [data.heat.row[i], data.heat.row[j]];
      showTip(event.pageX, event.pageY, `${rows.id[u]} → ${rows.id[v]}`,
        [`${name.startsWith("cosine") ? "cosine" : "similarity"} ${at(i, j)}, the other way ${at(j, i)}`, `cluster ${names[rows.cluster[u]]} → ${names[rows.cluster[v]]}`]);
    });
    heat.addEventListener("pointerleave", hideTip);
    $("layer")?.addEventListener("change", drawHeat);
  }

  // --- pictures to keep -------------------------------------------------------------------------

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  for (const button of document.querySelectorAll("button[data-save]")) {
    button.addEventListener("click", () => {
      for (const canvas of button.closest("section").querySelectorAll("canvas"))
        canvas.toBlob((blob) => save(blob, `${button.dataset.save}${canvas.dataset.panel ?? ""}.png`));
    });
  }

  // --- drawing --------------------------------------------------------------------------------

  const drawing = document.querySelector("svg.drawing");
  const curve = ([x1, y1], [x2, y2]) => {
    const cx = (x1 + x2) / 2 + 0.14 * (y2 - y1), cy = (y1 + y2) / 2 - 0.14 * (x2 - x1);
    return `M${x1} ${y1}Q${cx.toFixed(2)} ${cy.toFixed(2)} ${x2} ${y2}`;
  };
  if (drawing) {
    const { points, edges } = data.drawing;
    const around = (row) => {
      $("hot").replaceChildren();
      drawing.classList.toggle("focus", row !== undefined);
      if (row === undefined) { hideTip(); return; }
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("class", "hot");
      path.setAttribute("d", edges.filter(([u, v]) => u === row || v === row).map(([u, v]) => curve(points[u], points[v])).join(""));
      $("hot").append(path);
    };
    drawing.addEventListener("pointerover", (event) => {
      const row = event.target.dataset.row;
      around(row === undefined ? undefined : +row);
      if (row !== undefined) showTip(event.pageX, event.pageY, rows.id[row], describe(+row));
    });
    drawing.addEventListener("pointerleave", () => around(undefined));
    drawing.addEventListener("blur", () => around(undefined));
    const inTurn = points.map((_, i) => i).sort((a, b) => rows.cluster[a] - rows.cluster[b] || a - b);
    let turn = -1;
    drawing.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      turn = turn < 0 ? 0 : (turn + step + inTurn.length) % inTurn.length;
      const row = inTurn[turn];
      around(row);
      const box = drawing.querySelector(`circle.node[data-row="${row}"]`).getBoundingClientRect();
      showTip(scrollX + box.right, scrollY + box.bottom, rows.id[row], describe(row));
      $("said").textContent = [rows.id[row], ...describe(row)].join(", ");
    });
  }
  $("clusters").addEventListener("click", (event) => {
    const button = event.target.closest("button[data-row]");
    if (button) select(+button.dataset.row);
  });

  // --- table ----------------------------------------------------------------------------------

  const MOST = 2000, PAGE = 50;
  const view = { key: null, down: false, query: "", only: "", found: [], shown: 0 };
  const body = document.querySelector("#table tbody");
  const heads = [...document.querySelectorAll("#table th[data-key]")];
  const className = (row) => (rows.class[row] < 0 ? "unknown" : rows.classes[rows.class[row]]);
  const lower = rows.id.map((id) => id.toLowerCase());
  const compare = new Intl.Collator(undefined, { numeric: true }).compare;
  const cellsOf = (row) => heads.map((head) => {
    const key = head.dataset.key;
    if (key === "id") {
      const cell = element("td", "left");
      if (mapOf.has(row)) {
        const button = element("button", "", rows.id[row]);
        button.type = "button";
        button.title = "show on the map";
        button.addEventListener("click", () => select(row));
        cell.append(button);
      } else cell.append(rows.id[row]);
      return cell;
    }
    if (key === "cluster" || key === "next") return element("td", "left", chip(rows[key][row], names[rows[key][row]]));
    if (key === "class") return element("td", "left", className(row));
    if (key === "stable") return element("td", "", rows.stable[row] < 0 ? "–" : (rows.stable[row] / 100).toFixed(2));
    if (key === "sure") return element("td", "", (rows.sure[row] / 1000).toFixed(2));
    return element("td", "", rows[key][row].toLocaleString());
  });
  const showMore = (count) => {
    const until = Math.min(view.shown + count, view.found.length, MOST);
    const lines = document.createDocumentFragment();
    for (; view.shown < until; view.shown++) lines.append(element("tr", "", ...cellsOf(view.found[view.shown])));
    body.append(lines);
    $("more").hidden = view.shown >= Math.min(view.found.length, MOST);
    const all = view.found.length === rows.id.length ? "" : ` of ${rows.id.length.toLocaleString()}`;
    const listed = view.shown < view.found.length ? `, the first ${view.shown.toLocaleString()} listed` : "";
    $("found").textContent = `${view.found.length.toLocaleString()}${all} nodes${listed}`;
  };
  const refresh = () => {
    const query = view.query.trim().toLowerCase();
    const found = [];
    for (let i = 0; i < lower.length; i++) {
      if (view.only !== "" && rows.cluster[i] !== +view.only) continue;
      if (query && !lower[i].includes(query) && !(rows.class && className(i).toLowerCase().includes(query))) continue;
      found.push(i);
    }
    const { key } = view;
    if (key) {
      const sign = view.down ? -1 : 1;
      const text = key === "id" ? (i) => rows.id[i] : key === "class" ? className : null;
      found.sort(text ? (a, b) => sign * compare(text(a), text(b)) || a - b : (a, b) => sign * (rows[key][a] - rows[key][b]) || a - b);
    }
    view.found = found;
    view.shown = 0;
    body.replaceChildren();
    showMore(PAGE);
  };
  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      view.down = view.key === head.dataset.key && !view.down;
      view.key = head.dataset.key;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
      refresh();
    });
  }
  let waiting = 0;
  $("search").addEventListener("input", (event) => {
    view.query = event.target.value;
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 80);
  });
  $("only").addEventListener("change", (event) => { view.only = event.target.value; refresh(); });
  $("more").addEventListener("click", () => showMore(200));

  // A spreadsheet runs cells that begin like a formula; a number is not one.
  const cell = (text) => {
    const plain = /^[=+\-@\t\r]/.test(text) && !/^[+-]?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
    return /[",\n\r]|^\s|\s$/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
  };
  const csv = () => `node,cluster\n${rows.id.map((id, i) => `${cell(id)},${cell(names[rows.cluster[i]])}\n`).join("")}`;
  $("download").addEventListener("click", () => {
    save(new Blob([csv()], { type: "text/csv;charset=utf-8" }), data.complete ? "labels.csv" : "labels-sample.csv");
  });

  // --- light and dark -------------------------------------------------------------------------

  const root = document.documentElement, button = $("theme");
  const prefers = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefers.matches);
  const draw = () => {
    button.setAttribute("aria-pressed", String(dark()));
    readColours();
    drawMaps();
    drawHeat();
  };
  const stored = (value) => {
    // Files opened from disk may have no storage in some browsers.
    try { return value ? localStorage.setItem("hencler-theme", value) : localStorage.getItem("hencler-theme"); } catch { return null; }
  };
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    stored(root.dataset.theme);
    draw();
  });
  prefers.addEventListener("change", draw);
  addEventListener("resize", draw);
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; draw(); });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    draw();
  });
  legend();
  refresh();
  draw();
})();

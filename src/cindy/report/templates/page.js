(() => {
  "use strict";
  const numbers = JSON.parse(document.getElementById("numbers").textContent);
  const find = (id) => document.getElementById(id);
  const figures = new Map();
  const settings = { responsive: true, displayModeBar: false, doubleClick: "reset" };
  const touch = matchMedia("(pointer: coarse)").matches;
  let shown = Number(find("trajectory")?.value ?? 0); // the page says which it opens with
  let scale = "value";
  let colours = {};
  let paper = false;

  // Plotly interprets some HTML in its texts, which must not happen to names from the data. The middle of a long
  // name gives way: its end tells it from others, and holds the unit.
  const text = (name) => (name.length > 24 ? name.slice(0, 11) + "…" + name.slice(-11) : name)
    .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // Equations of fields have derivatives as subscripts: u_xx.
  const label = (name) => numbers.fields.length ? text(name).replace(/_([^\W\d_]+)/g, "<sub>$1</sub>") : text(name);

  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue("--" + name).trim();
    colours = Object.fromEntries(
      ["card", "ink", "muted", "line", "grid", "model", "data", "mark", "band", "sans"].map((n) => [n, value(n)]));
  };

  const axis = (title, more) => ({
    title: { text: title, standoff: 8, font: { size: 12 } }, gridcolor: colours.grid, linecolor: colours.line,
    zeroline: false, tickfont: { size: 11 }, ticks: "outside", ticklen: 4, tickcolor: colours.line, automargin: true, nticks: 7,
    fixedrange: touch, exponentformat: "power", minexponent: 4, separatethousands: true, ...more,
  });
  // Plotly sets powers of ten a quarter larger than other ticks.
  const log = { type: "log", tickfont: { size: 9 } };
  const layout = (x, y, more) => ({
    margin: { l: 12, r: 12, t: 12, b: 12 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: colours.sans, size: 12, color: colours.muted }, showlegend: false, hovermode: "closest",
    hoverlabel: { bgcolor: colours.card, bordercolor: colours.line, font: { color: colours.ink } },
    dragmode: touch ? false : "zoom", xaxis: x, yaxis: y, ...more,
  });

  const add = (parent, label, make, height) => {
    const card = document.createElement("div");
    card.className = "card";
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", label);
    if (height) plot.style.height = height + "px";
    card.append(plot);
    parent.append(card);
    figures.set(plot, make);
  };

  // A curve that diverges must not squeeze the data into a line: the axis then ends a little beyond the data.
  const within = (seen, ...curves) => {
    const ends = (list) => list.reduce(([a, b], v) => v === null || !isFinite(v) ? [a, b] : [Math.min(a, v), Math.max(b, v)],
      [Infinity, -Infinity]);
    const [low, high] = ends(seen), [least, most] = ends(curves.flat()), room = 0.75 * (high - low);
    if (!(room > 0) || (least >= low - room && most <= high + room)) return {};
    return { range: [Math.max(Math.min(least, low), low - room), Math.min(Math.max(most, high), high + room)] };
  };

  const hover = (across, up) => text(across) + " = %{x:.4g}, " + text(up) + " = %{y:.4g}<extra>%{fullData.name}</extra>";
  const solution = (j) => () => {
    const series = numbers.trajectories[shown];
    return {
      data: [
        ...(series.band ? [{ x: series.band.t, y: series.band.x[j], mode: "lines", type: "scatter", fill: "toself", fillcolor: colours.band,
          line: { width: 0 }, hoverinfo: "skip" }] : []),
        { x: series.t, y: series.x[j], mode: "markers", type: "scatter", name: "data", hovertemplate: hover(numbers.time, numbers.states[j]),
          marker: { color: colours.data, size: series.t.length > 300 ? 5 : 6, opacity: 0.6 } },
        { x: series.solved_t, y: series.solved[j], mode: "lines", type: "scatter", name: "model", hovertemplate: hover(numbers.time, numbers.states[j]),
          line: { color: colours.model, width: 1.6 } },
      ],
      layout: layout(axis(text(numbers.time)), axis(text(numbers.states[j]), within(series.x[j], series.solved[j]))),
    };
  };

  const density = (histogram, j) => () => ({
    data: [
      { x: histogram.x, y: histogram.data, type: "bar", width: histogram.width, name: "data", marker: { color: colours.data, opacity: 0.45, line: { width: 0 } },
        hovertemplate: hover(numbers.states[j], "density") },
      { x: histogram.x, y: histogram.model, type: "scatter", mode: "lines", name: "model", line: { color: colours.model, width: 2, shape: "spline" },
        hovertemplate: hover(numbers.states[j], "density") },
    ],
    layout: layout(axis(text(numbers.states[j])), axis("density", { rangemode: "tozero" })),
  });

  const phase = () => {
    const series = numbers.trajectories[shown], i = Number(find("phase-x").value), j = Number(find("phase-y").value);
    const template = hover(numbers.states[i], numbers.states[j]);
    return {
      data: [
        { x: series.x[i], y: series.x[j], mode: "markers", type: "scatter", name: "data", hovertemplate: template,
          marker: { color: colours.data, size: 4, opacity: 0.6 } },
        { x: series.solved[i], y: series.solved[j], mode: "lines", type: "scatter", name: "model", hovertemplate: template,
          line: { color: colours.model, width: 1.4 } },
      ],
      layout: layout(axis(text(numbers.states[i])), axis(text(numbers.states[j]))),
    };
  };

  const picture = (j, k) => () => {
    const field = numbers.fields[shown];
    const panel = field.panels[j][k];
    return {
      data: [{ x: field.x, y: field.y, z: panel.z, type: "heatmap", zmin: panel.low, zmax: panel.high,
        colorscale: panel.apart ? "RdBu" : "Viridis", hovertemplate: "%{z:.3g}<extra></extra>",
        colorbar: { thickness: 8, outlinewidth: 0, tickfont: { size: 10 }, nticks: 5, exponentformat: "power" } }],
      layout: layout(axis(text(field.across), { showgrid: false }), axis(text(field.up), { showgrid: false }), {
        margin: { l: 12, r: 12, t: 34, b: 12 },
        title: { text: text(panel.title), x: 0.02, y: 1, yref: "container", yanchor: "top", pad: { t: 8 }, xanchor: "left",
          font: { size: 14, color: colours.ink } } }),
    };
  };

  const coefficient = (equation, j) => () => {
    const half = scale === "value" ? equation.half : equation.share_half;
    const longest = (texts) => Math.max(...texts.map((t) => t.replace(/<[^>]*>/g, "").length));
    const narrow = longest(equation.terms.map(text)) > 15;
    return {
      data: [{
        x: equation[scale], y: equation.terms.map((_, k) => k), type: "scatter", mode: "markers",
        marker: { color: colours.model, size: 8 }, customdata: equation.terms.map((t, k) => [label(t), equation.text[k]]),
        hovertemplate: "%{customdata[0]}: %{customdata[1]}<extra></extra>",
        error_x: { type: "data", array: half.map((v) => v ?? 0), color: colours.model, thickness: 2, width: 5 },
      }],
      layout: layout(
        axis(scale === "value" ? "coefficient" : "relative size", { zeroline: true, rangemode: "tozero", nticks: narrow ? 4 : 5, tickangle: 0,
          zerolinecolor: colours.data, zerolinewidth: 1.2 }),
        axis("", { tickvals: equation.terms.map((_, k) => k), ticktext: equation.terms.map(label), range: [equation.terms.length - 0.4, -0.6],
          ticks: "", showgrid: false, tickfont: { color: colours.ink, size: 13 } }),
        { margin: { l: 12, r: 26 + 7 * longest(equation.text), t: 40, b: 12 },
          annotations: equation.text.map((label, k) => ({ text: label, xref: "paper", x: 1, xshift: 8, xanchor: "left", y: k,
            showarrow: false, font: { color: colours.ink, size: 12 } })), title: { text: label(numbers.sides[j]), x: 0.02, y: 1, yref: "container",
          yanchor: "top", pad: { t: 10 }, xanchor: "left", font: { size: 15, color: colours.ink } } }),
    };
  };

  const residual = (series, j) => () => ({
    data: [{ x: series.t, y: series.value, type: "scatter", mode: "markers", name: "residual",
      marker: { color: colours.model, size: 4, opacity: 0.6 } }],
    layout: layout(axis(text(numbers.time)), axis("residual of " + text(numbers.states[j]), {
      zeroline: true, zerolinecolor: colours.data })),
  });
  const correlation = (series, j) => () => ({
    data: [{ x: series.correlation.map((_, k) => k).slice(1), y: series.correlation.slice(1), type: "bar", width: 0.55,
      marker: { color: colours.model }, hovertemplate: "lag %{x}: %{y:.2f}<extra></extra>" }],
    layout: layout(axis("lag (samples)"), axis("autocorrelation", {
      zeroline: true, zerolinecolor: colours.data,
      range: [Math.min(-0.3, ...series.correlation.map((v) => 1.1 * (v ?? 0))), Math.max(0.5, ...series.correlation.slice(1).map((v) => 1.1 * (v ?? 0)))] }), {
      shapes: [{ type: "rect", xref: "paper", x0: 0, x1: 1, y0: -series.band, y1: series.band, fillcolor: colours.band,
        line: { width: 0 }, layer: "below" }] }),
  });

  const history = () => {
    const h = numbers.history;
    return {
      data: [{ x: h.iteration, y: h.gap.map((v) => v > 0 ? v : null), type: "scatter", mode: "lines", name: "gap",
        line: { color: colours.model, width: 2 } }],
      layout: layout(axis("iteration"), axis("gap", { ...log, dtick: undefined, nticks: 5 })),
    };
  };

  const path = numbers.path;
  const slider = find("model");
  const pathFigure = () => {
    const at = Number(slider.value);
    const finite = path.score.filter((v) => v !== null);
    const wide = finite.length && Math.min(...finite) > 0 && Math.max(...finite) > 50 * Math.min(...finite);
    const data = [{ x: path.size, y: path.score, type: "scatter", mode: "lines+markers", name: "score",
      line: { color: colours.data, width: 1.5 }, marker: { color: colours.data, size: 6 },
      hovertemplate: "%{x} terms: %{y:.3g}<extra></extra>" }];
    if (path.chosen !== null) data.push({ x: [path.size[path.chosen]], y: [path.score[path.chosen]], type: "scatter",
      mode: "markers", marker: { color: colours.model, size: 11 }, hovertemplate: "chosen<extra></extra>" });
    data.push({ x: [path.size[at]], y: [path.score[at]], type: "scatter", mode: "markers", hoverinfo: "skip",
      marker: { color: "rgba(0,0,0,0)", size: 18, line: { color: colours.mark, width: 2.5 } } });
    return { data, layout: layout(axis("terms", Math.max(...path.size) < 9 ? { dtick: 1 } : {}), axis("score (lower is better)", wide ? { ...log, dtick: 1 } : {})) };
  };

  // The MathML of a number as export/markup.py writes it: value, error in parentheses, power of ten.
  const number = (shownAs) => {
    const parts = /^(-?[\d.]+)(\(\d+\))?(?:e(-?\d+))?$/.exec(shownAs);
    if (!parts) return "<mtext>" + text(shownAs) + "</mtext>";
    return "<mn>" + parts[1] + "</mn>" + (parts[2] ? '<mn class="error">' + parts[2] + "</mn>" : "") +
      (parts[3] ? "<mo>×</mo><msup><mn>10</mn><mn>" + parts[3].replace("-", "−") + "</mn></msup>" : "");
  };
  const summand = ([row, sign, shownAs], first, extra) => {
    const mark = sign < 0 ? "−" : first ? "" : "+";
    const form = first ? "prefix" : "infix";
    const term = numbers.terms[row];
    return '<span class="' + (extra ? "extra" : "") + '"><math>' + (mark ? '<mo form="' + form + '">' + mark + "</mo>" : "") +
      number(shownAs) + (term ? '<mspace width="0.17em"/>' + term : "") + "</math></span>";
  };
  const showModel = () => {
    const at = Number(slider.value);
    const chosen = path.chosen === null ? null : path.models[path.chosen];
    find("model-size").textContent = path.size[at] + (path.size[at] === 1 ? " term" : " terms") +
      (at === path.chosen ? ", the chosen one" : "");
    const loss = path.loss[at] === null ? "" : path.loss[at] > 1 ? "Explains less than no model at all. " :
      "Residual: " + path.left[at] + " of the squares of the data" +
      (path.weighted ? ", weighted by the noise," : "") + " stay unexplained" +
      (path.kicked ? ", with the random kicks among them. " : ". ");
    const hint = chosen && at > path.chosen ? "Terms beyond the chosen model are coloured." : "";
    find("model-caption").textContent = loss + hint;
    find("model-equations").innerHTML = path.models[at].map((side, j) => {
      const known = chosen && new Set(chosen[j].map(([row]) => row));
      const sum = side.map((term, k) => summand(term, k === 0, known && !known.has(term[0]))).join(" ");
      return '<div class="left">' + numbers.left[j] + '</div><div class="right">' +
        (sum || "<math><mn>0</mn></math>") + "</div>";
    }).join("") + path.parameters[at].map(([left, right]) => '<div class="left">' + left +
      '</div><div class="right">' + right + "</div>").join("");
  };

  // The library is packed: five digits to the base 85 encode four bytes of gzip.
  const unpack = async () => {
    const { textContent: packed, dataset } = find("plotly");
    const worth = new Uint8Array(128);
    [...dataset.digits].forEach((digit, k) => { worth[digit.charCodeAt(0)] = k; });
    const bytes = new DataView(new ArrayBuffer(packed.length / 5 * 4));
    for (let i = 0, at = 0; i < packed.length; at += 4) {
      let value = 0;
      for (const end = i + 5; i < end; i++) value = value * 85 + worth[packed.charCodeAt(i)];
      bytes.setUint32(at, value);
    }
    const zipped = new Blob([new Uint8Array(bytes.buffer, 0, Number(dataset.length))]).stream();
    const script = document.createElement("script");
    script.textContent = await new Response(zipped.pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(script);
    find("plotly").remove();
  };

  const draw = (plot) => {
    if (!window.Plotly) return;
    const figure = figures.get(plot)();
    if (paper) Object.assign(figure.layout, { width: plot.clientWidth, height: plot.clientHeight });
    return Plotly.react(plot, figure.data, figure.layout, settings);
  };
  const drawAll = () => { readColours(); figures.forEach((_, plot) => draw(plot)); };

  const followers = []; // functions that redraw figures of the chosen trajectory
  const solutions = find("solution-plots");
  if (solutions) numbers.states.forEach((s, j) => add(solutions, "data and solution of " + s, solution(j)));
  if (find("phase-plot")) {
    figures.set(find("phase-plot"), phase);
    ["phase-x", "phase-y"].forEach((id) => find(id).addEventListener("change", () => draw(find("phase-plot"))));
    followers.push(() => draw(find("phase-plot")));
  }
  numbers.densities.forEach((histogram, j) => add(find("density-plots"), "density of " + numbers.states[j], density(histogram, j)));
  const pictures = find("field-plots");
  if (pictures) numbers.fields[0].panels.forEach((row, j) => row.forEach((panel, k) =>
    add(pictures, panel.title + " of " + numbers.states[j], picture(j, k))));
  numbers.coefficients.forEach((equation, j) => {
    if (equation.terms.length) add(find("coefficient-plots"), "coefficients of " + numbers.sides[j],
      coefficient(equation, j), 110 + 26 * equation.terms.length);
  });
  if (path) {
    figures.set(find("path-plot"), pathFigure);
    slider.max = path.size.length - 1;
    slider.value = path.chosen ?? path.size.length - 1;
    slider.addEventListener("input", () => { showModel(); draw(find("path-plot")); });
    showModel();
  }
  numbers.residuals.forEach((series) => {
    const j = series.state;
    add(find("residual-plots"), "residuals of " + numbers.states[j], residual(series, j));
    add(find("residual-plots"), "autocorrelation of the residuals of " + numbers.states[j], correlation(series, j));
  });
  if (numbers.history) figures.set(find("history-plot"), history);

  find("trajectory")?.addEventListener("change", (event) => {
    shown = Number(event.target.value);
    (solutions ?? pictures).querySelectorAll(".plot").forEach(draw);
    followers.forEach((follow) => follow());
  });
  document.querySelectorAll(".switch button").forEach((button) => button.addEventListener("click", () => {
    scale = button.dataset.scale;
    document.querySelectorAll(".switch button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
    document.querySelectorAll("[data-for]").forEach((p) => { p.hidden = p.dataset.for !== scale; });
    find("coefficient-plots").querySelectorAll(".plot").forEach(draw);
  }));
  // A page that is opened from a folder may not use the clipboard; it then selects the text for the user.
  const copy = async (button, words, source) => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(words);
      button.textContent = "copied";
    } catch {
      if (source) getSelection().selectAllChildren(source);
      button.textContent = source ? "selected" : "not allowed here";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  document.querySelectorAll(".code .copy").forEach((button) => button.addEventListener("click", () =>
    copy(button, button.nextElementSibling.textContent, button.nextElementSibling)));
  if (numbers.explorer) window.explored = explorer({
    numbers, find, text, axis, layout, add, draw, summand, number, within, copy, shown: () => shown, colours: () => colours,
    whenShown: (follow) => followers.push(follow),
  });

  // A table that is wider or longer than its place says so.
  const watched = new ResizeObserver(() => document.querySelectorAll(".scroll").forEach((box) => {
    box.toggleAttribute("data-cut", box.scrollWidth > box.clientWidth + 1);
    box.toggleAttribute("data-more", box.scrollHeight > box.clientHeight + 1);
  }));
  document.querySelectorAll(".scroll, .scroll table").forEach((element) => watched.observe(element));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  const printing = (on) => () => {
    paper = on;
    document.documentElement.classList.toggle("printing", on);
    find("all-coefficients").open = on;
    drawAll();
  };
  addEventListener("beforeprint", printing(true));
  addEventListener("afterprint", printing(false));
  // Draw the figures in view first and the others one at a time, so that the page stays responsive.
  readColours();
  const waiting = [...figures.keys()];
  const next = () => {
    const plot = waiting.shift();
    if (!plot) {
      Object.assign(document.documentElement.dataset, { drawn: figures.size, drawnAfter: performance.now() });
      return;
    }
    draw(plot);
    plot.getBoundingClientRect().top < innerHeight ? next() : setTimeout(next);
  };
  unpack().then(next, (error) => { find("undrawn").hidden = false; console.error(error); });
})();

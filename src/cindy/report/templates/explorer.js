// The explorer: refits of a support from the triangles in the page, and simulation of what they give.
// `page` has the tools of page.js; `cindyTerms(v, p, o)`, written by explorer.py, evaluates the terms.
const explorer = (page) => {
  "use strict";
  const { numbers, find, text, axis, layout, add, draw, summand } = page;
  const data = numbers.explorer;
  const states = numbers.states.length;
  const width = data.order * states;

  // ---- least squares on a support, under equalities ----

  const blocks = data.blocks.map((block) => {
    const bytes = Uint8Array.from(atob(block.triangle), (c) => c.charCodeAt(0));
    const values = new Float64Array(bytes.buffer);
    const size = block.columns.length + 1;
    let at = 0;
    const rows = Array.from({ length: block.rows }, (_, k) => {
      const row = new Float64Array(size);
      for (let j = k; j < size; j++) row[j] = values[at++];
      return row;
    });
    return { rows, place: new Map(block.columns.map((column, j) => [column, j])) };
  });

  // The coefficients c with A c = b are offset + free z, by Gauss-Jordan elimination; null if there are none.
  const freedom = (support) => {
    const at = new Map(support.map((column, k) => [column, k]));
    const n = support.length;
    const rows = data.equalities.map(([weights, goal]) => {
      const row = new Float64Array(n + 1);
      for (const [column, weight] of weights) if (at.has(column)) row[at.get(column)] += weight;
      row[n] = goal;
      return row;
    });
    const pivots = [];
    for (let j = 0, next = 0; j < n && next < rows.length; j++) {
      let best = next;
      for (let i = next; i < rows.length; i++) if (Math.abs(rows[i][j]) > Math.abs(rows[best][j])) best = i;
      if (Math.abs(rows[best][j]) < 1e-11) continue;
      [rows[next], rows[best]] = [rows[best], rows[next]];
      const head = rows[next][j];
      for (let k = 0; k <= n; k++) rows[next][k] /= head;
      rows.forEach((row, i) => {
        const factor = i === next ? 0 : row[j];
        if (factor) for (let k = 0; k <= n; k++) row[k] -= factor * rows[next][k];
      });
      pivots[next++] = j;
    }
    if (rows.slice(pivots.length).some((row) => Math.abs(row[n]) > 1e-9)) return null;
    const bound = new Map(pivots.map((j, i) => [j, rows[i]]));
    const open = support.map((_, j) => j).filter((j) => !bound.has(j));
    return {
      offset: support.map((_, j) => (bound.has(j) ? bound.get(j)[n] : 0)),
      free: support.map((_, j) => open.map((k) => (bound.has(j) ? -bound.get(j)[k] : j === k ? 1 : 0))),
      count: open.length,
    };
  };

  // Least squares by Householder's triangle of columns of unit length: values, a root of their covariance, χ².
  const fit = (support) => {
    const shape = freedom(support);
    if (!shape) return null;
    const { offset, free, count } = shape;
    const rows = blocks.flatMap(({ rows: all, place }) => {
      const columns = support.map((column) => place.get(column));
      return all.map((row) => {
        const own = columns.map((j) => (j === undefined ? 0 : row[j]));
        const reduced = new Float64Array(count + 1);
        own.forEach((value, j) => { if (value) free[j].forEach((weight, k) => { reduced[k] += value * weight; }); });
        reduced[count] = row[row.length - 1] - own.reduce((sum, value, j) => sum + value * offset[j], 0);
        return reduced;
      });
    });
    const length = Array.from({ length: count }, (_, k) => Math.sqrt(rows.reduce((s, row) => s + row[k] ** 2, 0)) || 1);
    rows.forEach((row) => length.forEach((size, k) => { row[k] /= size; }));
    for (let k = 0; k < Math.min(count, rows.length); k++) {
      let norm = 0;
      for (let i = k; i < rows.length; i++) norm += rows[i][k] ** 2;
      norm = Math.sqrt(norm) * (rows[k][k] > 0 ? -1 : 1);
      const v = rows.map((row, i) => (i < k ? 0 : row[k] - (i === k ? norm : 0)));
      const square = v.reduce((sum, value) => sum + value ** 2, 0);
      if (!square) continue;
      for (let j = k; j <= count; j++) {
        let dot = 0;
        for (let i = k; i < rows.length; i++) dot += v[i] * rows[i][j];
        for (let i = k; i < rows.length; i++) rows[i][j] -= 2 * dot / square * v[i];
      }
    }
    const solve = (right) => {
      const z = new Float64Array(count);
      for (let k = count - 1; k >= 0; k--) {
        let sum = right[k];
        for (let j = k + 1; j < count; j++) sum -= rows[k][j] * z[j];
        z[k] = Math.abs(rows[k][k]) > 1e-11 ? sum / rows[k][k] : 0; // a column that depends on others says nothing
      }
      return z.map((value, k) => value / length[k]);
    };
    const spreadOut = (z) => free.map((weights) => weights.reduce((sum, weight, k) => sum + weight * z[k], 0));
    const best = spreadOut(solve(rows.map((row) => row[count])));
    const inverse = Array.from({ length: count }, (_, k) => spreadOut(solve(rows.map((_, i) => (i === k ? 1 : 0)))));
    return {
      value: best.map((value, j) => value + offset[j]),
      root: support.map((_, j) => inverse.map((column) => column[j])),
      loss: rows.slice(count).reduce((sum, row) => sum + row[count] ** 2, 0),
    };
  };

  const size = (row) => Math.sqrt(row.reduce((sum, value) => sum + value ** 2, 0));

  // ---- the model shown ----

  const own = data.own.map(([column]) => column);
  const first = fit(own);
  // Standard errors of the model may be larger than the rows alone give; those of a refit grow by the same factor.
  const factor = new Map(data.own.map(([column, , error], k) => {
    const plain = first ? size(first.root[k]) : 0;
    return [column, error && plain ? error / plain : 1];
  }));
  const parameters = data.parameters.map(([, value]) => value);
  let model = null; // support, value (as drawn), centre (as fitted), root (of their covariance), loss
  let start = [];
  let horizon = 0;

  const sameAs = (a, b) => a.length === b.length && a.every((value, k) => value === b[k]);
  const take = (support) => {
    const sorted = [...support].sort((a, b) => a - b);
    const refit = fit(sorted);
    if (!refit) return false;
    const largest = Math.max(...refit.value.map(Math.abs), 0);
    const there = sorted.map((_, k) => Math.abs(refit.value[k]) > 1e-12 * largest); // constraints hold some at 0
    const only = (list) => list.filter((_, k) => there[k]);
    model = { support: only(sorted), value: only(refit.value), root: only(refit.root), loss: refit.loss };
    model.root = model.root.map((row, k) => row.map((v) => v * (factor.get(model.support[k]) ?? 1)));
    model.error = model.root.map(size);
    if (sameAs(model.support, own)) {
      model.value = data.own.map(([, value]) => value);
      model.error = data.own.map(([, , error], k) => error ?? model.error[k]);
      if (data.root) model.root = data.root;
    }
    model.centre = [...model.value];
    return true;
  };

  // Coefficients that a constraint ties enter together.
  const tied = (column) => {
    const group = new Set([column]);
    for (let before = 0; before < group.size;) {
      before = group.size;
      for (const [weights] of data.equalities)
        if (weights.some(([c]) => group.has(c))) weights.forEach(([c]) => group.add(c));
    }
    return group;
  };

  // ---- simulation: Runge-Kutta of fourth order, or the map itself ----

  const run = () => numbers.trajectories[page.shown()];
  const o = [];
  const inputsAt = (series, t) => {
    let low = 0;
    for (let high = series.t.length - 1; high - low > 1;) {
      const middle = (low + high) >> 1;
      series.t[middle] <= t ? low = middle : high = middle;
    }
    const share = data.held ? 0 : Math.min(Math.max((t - series.t[low]) / ((series.t[low + 1] - series.t[low]) || 1), 0), 1);
    return series.u.map((u, k) => (k === data.clock ? t : u[low] + (share ? share * ((u[low + 1] ?? u[low]) - u[low]) : 0)));
  };
  const side = (series, value, p) => (x, t) => {
    const v = [...x.slice(0, states + data.rates), ...inputsAt(series, t)];
    cindyTerms(v, p, o);
    const out = new Array(width).fill(0);
    for (let j = 0; j < width - states; j++) out[j] = x[states + j];
    model.support.forEach((column, k) => {
      const [row, equation] = data.columns[column];
      out[width - states + equation] += value[k] * o[row];
    });
    return out;
  };
  const simulate = (value, p, points) => {
    const series = run();
    const f = side(series, value, p);
    const step = (series.t[series.t.length - 1] - series.t[0]) / Math.max(series.t.length - 1, 1);
    const n = data.discrete ? Math.round(horizon / step) : Math.min(Math.max(Math.ceil(3 * horizon / step), 300), 6000);
    const h = horizon / n;
    const bound = 100 * Math.max(...series.x.flat().map((v) => Math.abs(v ?? 0)));
    const every = Math.max(Math.floor(n / points), 1);
    const result = { t: [series.t[0]], x: start.map((v) => [v]), stopped: false };
    let x = [...start];
    const moved = (k, by) => x.map((v, j) => v + by * k[j]);
    for (let i = 0; i < n; i++) {
      const t = series.t[0] + i * h;
      if (data.discrete) x = f(x, t);
      else {
        const a = f(x, t), b = f(moved(a, h / 2), t + h / 2), c = f(moved(b, h / 2), t + h / 2), d = f(moved(c, h), t + h);
        x = x.map((v, j) => v + h / 6 * (a[j] + 2 * b[j] + 2 * c[j] + d[j]));
      }
      if (!x.slice(0, states).every((v) => Math.abs(v) < bound)) { result.stopped = true; break; }
      if ((i + 1) % every === 0 || i === n - 1) {
        result.t.push(series.t[0] + (i + 1) * h);
        x.forEach((v, j) => result.x[j].push(v));
      }
    }
    return result;
  };

  // Solutions with coefficients drawn from their covariance; the middle 90 % at each time are the band.
  const normal = (() => {
    let seed = 1;
    const uniform = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return (seed + 0.5) / 2147483648; };
    return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
  })();
  const bands = (curve) => {
    const draws = [];
    const columns = model.root[0]?.length ?? 0;
    for (let k = 0; k < 40; k++) {
      const z = Array.from({ length: columns }, normal);
      const shift = model.root.map((row) => row.reduce((sum, v, j) => sum + v * z[j], 0));
      const jointly = shift.length > model.value.length; // the root goes on with the parameters
      const p = parameters.map((v, j) =>
        v + (jointly ? shift[model.value.length + j] : (data.parameters[j][2] ?? 0) * normal()));
      draws.push(simulate(model.value.map((v, j) => v + shift[j]), p, 200).x);
    }
    const count = Math.min(curve.t.length, ...draws.map((x) => x[0].length));
    const at = (list, share) => list.sort((a, b) => a - b)[Math.floor(share * (list.length - 1))];
    return numbers.states.map((_, j) => [0.05, 0.95].map((share) =>
      Array.from({ length: count }, (_, i) => at(draws.map((x) => x[j][i]), share))).concat([curve.t.slice(0, count)]));
  };

  // ---- what is seen ----

  let curve = null;
  let band = null;
  let waiting = 0;
  cindyTerms(new Array(99).fill(0.5), parameters, o);
  const coded = new Set(Object.keys(o).map(Number)); // a term that is a Python function has no code
  const possible = () => model.support.every((column) => coded.has(data.columns[column][0]));

  const panel = (j) => () => {
    const series = run(), { model: ink, data: grey, band: wash } = page.colours();
    const traces = [{ x: series.t, y: series.x[j], mode: "markers", type: "scatter", name: "data",
      marker: { color: grey, size: 5, opacity: 0.6 } }];
    if (band) traces.push(
      { x: band[j][2], y: band[j][0], mode: "lines", line: { width: 0 }, hoverinfo: "skip", type: "scatter" },
      { x: band[j][2], y: band[j][1], mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: wash, hoverinfo: "skip", type: "scatter" });
    if (curve) traces.push({ x: curve.t, y: curve.x[j], mode: "lines", type: "scatter", name: "model", line: { color: ink, width: 1.8 } });
    const end = series.t[0] + horizon, up = page.within(series.x[j], curve?.x[j] ?? [], ...(band?.[j].slice(0, 2) ?? []));
    return { data: traces, layout: layout(axis(text(numbers.time), { range: [series.t[0], end] }), axis(text(numbers.states[j]), up)) };
  };
  const redraw = () => {
    curve = possible() ? simulate(model.value, parameters, 1500) : null;
    band = null;
    const plots = [...find("explore-plots").querySelectorAll(".plot")];
    plots.forEach(draw);
    find("explore-stopped").textContent = !curve ? "A term of this model is a Python function, which a page cannot run." :
      curve.stopped ? "The solution leaves the range of the data and is not drawn beyond." : "";
    clearTimeout(waiting);
    if (curve) waiting = setTimeout(() => {
      band = bands(simulate(model.value, parameters, 200));
      plots.forEach(draw);
    }, 250);
  };

  // 28.00(2): the last digit in parentheses is the error, as the rest of the page writes it.
  const written = (value, error) => {
    if (!(error > 0) || !isFinite(error)) return String(Number(value.toPrecision(6)));
    const place = Math.min(Math.floor(Math.log10(Number(error.toPrecision(1)))), Math.floor(Math.log10(Math.abs(value) || error)));
    const power = Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? Math.floor(Math.log10(Math.abs(value) || error)) : 0;
    const decimals = power - place;
    const digits = decimals >= 0 ? (value / 10 ** power).toFixed(Math.min(decimals, 15)) : String(Math.round(value / 10 ** place) * 10 ** place);
    return digits + "(" + Math.round(error / 10 ** Math.min(place, power)) + ")" + (power ? "e" + power : "");
  };
  const sideOf = (j) => model.support.map((column, k) => [column, k]).filter(([column]) => data.columns[column][1] === j);
  const asText = () => [
    ...numbers.sides.map((left, j) => left + " = " + (sideOf(j).map(([column, k], i) => {
      const label = data.labels[data.columns[column][0]];
      const sign = model.value[k] < 0 ? (i ? " - " : "-") : i ? " + " : "";
      return sign + written(Math.abs(model.value[k]), model.error[k]) + (label === "1" ? "" : " " + label);
    }).join("") || "0")),
    ...data.parameters.map(([name, , error], k) => name + " = " + written(parameters[k], error)),
  ].join("\n");
  const asFile = () => {
    const coefficients = Object.fromEntries(data.file.states.map((state, j) => [state, Object.fromEntries(
      sideOf(j).map(([column, k]) => [data.names[data.columns[column][0]], [model.value[k], model.error[k]]]))]));
    const values = Object.fromEntries(data.parameters.map(([name, , error], k) => [name, [parameters[k], error]]));
    return { ...data.file, equations: asText().split("\n"), coefficients, parameters: values };
  };

  const showEquations = () => {
    numbers.terms = { ...numbers.terms, ...data.terms };
    const mine = new Set(own);
    find("explore-equations").innerHTML = numbers.left.map((left, j) => '<div class="left">' + left + '</div><div class="right">' +
      (sideOf(j).map(([column, k], i) => summand([data.columns[column][0], Math.sign(model.value[k]),
        written(Math.abs(model.value[k]), model.error[k])], i === 0, !mine.has(column))).join(" ") || "<math><mn>0</mn></math>") +
      "</div>").join("") + data.parameters.map(([, , error, left], k) => '<div class="left">' + left +
      '</div><div class="right"><span><math>' + page.number(written(parameters[k], error)) + "</math></span></div>").join("");
    const more = model.loss - first.loss, terms = model.support.length - own.length;
    const by = Math.abs(more) < 100 ? Math.abs(more).toFixed(1) : Number(Math.abs(more).toPrecision(3)).toLocaleString("en");
    find("explore-verdict").textContent = sameAs(model.support, own) ? "This is the model that was identified." :
      "χ² is " + by + (more < 0 ? " lower" : " higher") + " than for the identified model, with " +
      (terms ? Math.abs(terms) + (terms > 0 ? " more" : " fewer") + (Math.abs(terms) === 1 ? " term." : " terms.") : "as many terms.") +
      (terms > 0 && -more < 10 * terms ? " A term that lowers χ² by less than about 10 may fit noise." : "");
  };

  const slider = (label, value, low, high, change) => {
    const row = document.createElement("label");
    const name = document.createElement("span"), input = document.createElement("input"), output = document.createElement("output");
    name.innerHTML = label;
    Object.assign(input, { type: "range", min: low, max: high, step: (high - low) / 400 || 1e-6, value });
    const tell = () => { output.textContent = String(Number(Number(input.value).toPrecision(4))).replace("-", "−"); };
    input.addEventListener("input", () => { change(Number(input.value)); tell(); });
    tell();
    row.append(name, input, output);
    return row;
  };
  const showSliders = () => {
    const order = numbers.sides.flatMap((_, j) => sideOf(j)); // equation by equation, as they are written
    const coefficients = order.length > 40 ? [] : order.map(([column, k]) => {
      const [row, j] = data.columns[column], reach = 3 * (model.error[k] || Math.abs(model.centre[k]) / 10);
      return slider(text(numbers.sides[j]) + ": <math>" + (data.terms[row] || "<mn>1</mn>") + "</math>", model.value[k], model.centre[k] - reach, model.centre[k] + reach,
        (value) => { model.value[k] = value; showEquations(); redraw(); });
    });
    const inside = data.parameters.map(([name, value, error], k) => {
      const reach = 3 * (error || Math.abs(value) / 10);
      return slider(text(name), parameters[k], value - reach, value + reach, (v) => { parameters[k] = v; showEquations(); redraw(); });
    });
    find("explore-coefficients").replaceChildren(...coefficients, ...inside);
  };
  const showStart = () => {
    const series = run(), last = series.t[series.t.length - 1] - series.t[0];
    start = [...series.start, ...new Array(width).fill(0)].slice(0, width);
    horizon = Math.min(data.span ?? last, last);
    const names = [...numbers.states, ...(data.order === 2 ? numbers.states.map((s) => s + "′") : [])];
    const sliders = names.map((name, j) => {
      const seen = j < states ? series.x[j].filter((v) => v !== null) : [-Math.abs(start[j]) - 1, Math.abs(start[j]) + 1];
      const low = Math.min(...seen, start[j]), high = Math.max(...seen, start[j]), room = 0.1 * (high - low) || 1;
      return slider(text(name) + " at the start", start[j], low - room, high + room, (v) => { start[j] = v; redraw(); });
    });
    sliders.push(slider("time shown", horizon, last / 50, last, (v) => { horizon = v; redraw(); }));
    find("explore-start").replaceChildren(...sliders);
  };

  const boxes = new Map();
  const showBoxes = () => boxes.forEach((box, column) => { box.checked = model.support.includes(column); });
  const show = () => { showBoxes(); showEquations(); showSliders(); redraw(); };
  const table = () => {
    const rows = [...new Set(data.columns.map(([row]) => row))];
    const head = document.createElement("tr");
    head.innerHTML = "<th>term</th>" + numbers.sides.map((s) => "<th>" + text(s) + "</th>").join("");
    const body = rows.map((row) => {
      const line = document.createElement("tr");
      line.innerHTML = "<td><math>" + (data.terms[row] || "<mn>1</mn>") + "</math></td>" + "<td></td>".repeat(states);
      data.columns.forEach(([i, j], column) => {
        if (i !== row) return;
        const box = document.createElement("input"), cell = line.children[j + 1], chance = data.inclusion[column];
        box.type = "checkbox";
        box.setAttribute("aria-label", data.labels[row] + " in " + numbers.sides[j]);
        if (chance !== null) {
          cell.style.setProperty("--chance", chance);
          cell.title = "inclusion probability " + Math.round(100 * chance) + " %";
        }
        box.addEventListener("change", () => {
          const support = new Set(model.support);
          if (box.checked) tied(column).forEach((c) => support.add(c));
          else support.delete(column);
          const fits = take([...support]);
          find("explore-models").value = "";
          show();
          if (!fits) find("explore-verdict").textContent = "The constraints cannot be satisfied with these terms.";
        });
        boxes.set(column, box);
        cell.append(box);
      });
      return line;
    });
    find("explore-terms").append(head, ...body);
  };

  const picker = find("explore-models");
  const offer = (label, value) => picker.append(Object.assign(document.createElement("option"), { textContent: label, value }));
  offer("own choice", "");
  offer("the identified model", "own");
  data.models.forEach((other, k) => offer(other.name, k));
  const pick = (value) => {
    picker.value = value;
    if (value !== "") { take(value === "own" ? own : data.models[value].places); show(); }
  };
  picker.addEventListener("change", () => pick(picker.value));
  document.querySelectorAll("[data-explore]").forEach((button) => button.addEventListener("click", () => {
    pick(button.dataset.explore);
    find("explore").scrollIntoView();
  }));
  find("explore-reset").addEventListener("click", () => {
    data.parameters.forEach(([, value], k) => { parameters[k] = value; });
    model.value = [...model.centre];
    showStart();
    show();
  });
  find("explore-copy").addEventListener("click", () => page.copy(find("explore-copy"), asText()));
  find("explore-save").hidden = !data.file;
  find("explore-save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(asFile(), null, 1)], { type: "application/json" }));
    link.download = "model.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  page.whenShown(() => { showStart(); redraw(); });

  numbers.states.forEach((state, j) => add(find("explore-plots"), "data and the model shown: " + state, panel(j)));
  table();
  showStart();
  take(own);
  picker.value = "own";
  show();
  return { text: asText, file: asFile, values: () => Object.fromEntries(model.support.map((column, k) => {
    const [row, j] = data.columns[column];
    return [numbers.sides[j] + ": " + data.names[row], model.value[k]];
  })) };
};

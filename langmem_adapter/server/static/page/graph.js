// The picture of what lies around one entity, and its slider through time. The table below it says the same without a script.
"use strict";
{
  const figure = document.getElementById("picture");
  const { nodes, ties, stops, at: asked } = JSON.parse(document.getElementById("graph-data").textContent);
  const rows = document.getElementById("ties")?.tBodies[0].rows ?? [];
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const LONGEST = 24;
  const [LEAST_SCALE, MOST_SCALE] = [0.05, 4];
  const TICKS = 180;

  for (const tie of ties) Object.assign(tie, { from: tie.from ?? -Infinity, to: tie.to ?? Infinity, ends: [nodes[tie.source], nodes[tie.target]] });
  for (const node of nodes) node.ties = [];
  for (const tie of ties) for (const node of new Set(tie.ends)) node.ties.push(tie);

  // ── places: computed once over all times, so that nothing moves when time does ─────────────────────────────────────────

  function place() {
    const pairs = new Map();
    for (const tie of ties) {
      const key = tie.source < tie.target ? `${tie.source} ${tie.target}` : `${tie.target} ${tie.source}`;
      const together = pairs.get(key) ?? [];
      tie.bend = tie.source === tie.target ? together.length + 1 : Math.ceil(together.length / 2) * (together.length % 2 ? 1 : -1);
      if (tie.source > tie.target) tie.bend = -tie.bend;
      pairs.set(key, [...together, tie]);
    }
    const links = [...pairs.values()].map(([tie]) => ({ source: tie.source, target: tie.target }));
    const long = (node) => Math.min(node.name.length, LONGEST);
    const { width, height } = svg.node().getBoundingClientRect();
    const [flat, high] = width > height ? [0.03, 0.07] : [0.07, 0.04];
    Object.assign(nodes[0], { fx: 0, fy: 0 });
    d3.forceSimulation(nodes)
      .force("links", d3.forceLink(links).distance((link) => 70 + 5 * Math.sqrt(Math.max(link.source.ties.length, link.target.ties.length))))
      .force("apart", d3.forceManyBody().strength(-320).distanceMax(700))
      .force("room", d3.forceCollide((node) => 22 + long(node)))
      .force("across", d3.forceX().strength(flat))
      .force("down", d3.forceY().strength(high))
      .alphaDecay(1 - 0.001 ** (1 / TICKS))
      .stop()
      .tick(TICKS);
  }

  // ── the drawing: positions are scaled, letters and shapes keep their size ──────────────────────────────────────────────

  const svg = d3.select(figure).select(".canvas > svg");
  const graphemes = new Intl.Segmenter();
  const cut = (name) => {
    const letters = Array.from(graphemes.segment(name.replace(/\s+/g, " ")), ({ segment }) => segment);
    let width = 0;
    const fitting = letters.findIndex((letter) => (width += letter > "\u2e7f" ? 2 : 1) > LONGEST);
    return fitting < 0 ? letters.join("") : `${letters.slice(0, fitting).join("")}…`;
  };
  const size = (node) => (node === nodes[0] ? 1.25 : 0.75 + Math.min(Math.sqrt(node.mentions) / 12, 0.35));
  const radius = (node) => 10 * size(node) * shrunk();
  const holding = (node) => node.ties.filter((tie) => tie.state === "holds").length;
  const told = (node) => {
    const [held, over] = [holding(node), node.ties.filter((tie) => tie.state === "ended").length];
    const type = node.type ? `, ${node.type}` : "";
    return `${node.name}${type}, ${held} ${held === 1 ? "relation" : "relations"}${over ? `, ${over} ended` : ""}`;
  };

  function draw() {
    const line = svg.append("g").attr("class", "ties").selectAll("g").data(ties).join("g");
    line.append("path").attr("class", "tie").attr("marker-end", "url(#arrow)");
    line.append("text").attr("dy", "0.32em").text((tie) => cut(tie.name));
    const node = svg.append("g").attr("class", "nodes").selectAll("a").data(nodes).join("a")
      .classed("middle", (each) => each === nodes[0])
      .attr("tabindex", (each) => (each === nodes[0] ? 0 : -1))
      .on("mouseenter focus", (_, each) => light(each))
      .on("mouseleave blur", () => light(null))
      .on("focus.into", (_, each) => reveal(each))
      .on("keydown", walk);
    node.append("title").text((each) => (each.type ? `${each.name} (${each.type})` : each.name));
    node.append("circle").attr("class", "ring").attr("r", (each) => 10 * size(each) + 5);
    node.append("use").attr("class", (each) => `shape ${each.shape}`).attr("href", (each) => `#shape-${each.shape}`);
    node.append("text").text((each) => cut(each.name));
    line.each(function (tie) { Object.assign(tie, { element: this, path: this.firstChild, label: this.lastChild }); });
    node.each(function (each) { Object.assign(each, { element: this, shape: this.querySelector("use"), label: this.lastChild }); });
    const widths = new Map();
    for (const each of [...nodes, ...ties]) {
      const text = each.label.textContent;
      if (!widths.has(text)) widths.set(text, each.label.getComputedTextLength());
      each.width = widths.get(text);
    }
    nodes[0].element.parentNode.append(nodes[0].element);
  }

  let seen = d3.zoomIdentity;
  const shrunk = () => Math.min(Math.max(Math.sqrt(seen.k * 1.6), 0.6), 1);
  const onScreen = (node) => seen.apply([node.x, node.y]);

  function curve(tie) {
    const [[x0, y0], [x1, y1]] = tie.ends.map(onScreen);
    if (tie.source === tie.target) {
      const high = 26 + 16 * tie.bend;
      tie.middle = [x0, y0 - high * 0.8];
      return `M${x0 - 6},${y0 - 9}C${x0 - 30},${y0 - high} ${x0 + 30},${y0 - high} ${x0 + 6},${y0 - 9}`;
    }
    const length = Math.hypot(x1 - x0, y1 - y0) || 1;
    const [across, along] = [(y0 - y1) / length, (x1 - x0) / length];
    const bent = 20 * tie.bend;
    const [cx, cy] = [(x0 + x1) / 2 + across * bent * 2, (y0 + y1) / 2 + along * bent * 2];
    const short = (fx, fy, tx, ty, by) => {
      const far = Math.hypot(tx - fx, ty - fy) || 1;
      return [tx - ((tx - fx) / far) * by, ty - ((ty - fy) / far) * by];
    };
    const [sx, sy] = short(cx, cy, x0, y0, radius(tie.ends[0]) + 2);
    const [ex, ey] = short(cx, cy, x1, y1, radius(tie.ends[1]) + 4);
    tie.middle = [(x0 + x1) / 2 + across * bent, (y0 + y1) / 2 + along * bent];
    tie.towards = [(x1 - x0) / length, (y1 - y0) / length, length];
    return `M${sx},${sy}Q${cx},${cy} ${ex},${ey}`;
  }

  function render() {
    for (const tie of ties) tie.path.setAttribute("d", curve(tie));
    for (const node of nodes) {
      node.element.setAttribute("transform", `translate(${onScreen(node)})`);
      node.shape.setAttribute("transform", `scale(${radius(node) / 10})`);
    }
    label();
  }

  // Where a node's relations do not lead to, a little below.
  function away(node) {
    let [ax, ay] = [0, 0.3];
    for (const tie of node.ties) {
      const other = tie.ends[0] === node ? tie.ends[1] : tie.ends[0];
      const far = Math.hypot(other.x - node.x, other.y - node.y) || 1;
      ax -= (other.x - node.x) / far / node.ties.length;
      ay -= (other.y - node.y) / far / node.ties.length;
    }
    return [ax, ay];
  }

  // Each label takes the first place at its node that is free, the nearest nodes first. A label without a free place is
  // shown only with the pointer or the focus on its node.
  function label() {
    const taken = nodes.map((node) => {
      const [[x, y], r] = [onScreen(node), radius(node)];
      return { left: x - r, right: x + r, top: y - r, bottom: y + r, node };
    });
    const { width, height } = svg.node().getBoundingClientRect();
    const inside = (box) => box.left >= 0 && box.right <= width && box.top >= 0 && box.bottom <= height;
    const free = (box) => inside(box) && taken.every((other) => box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom);
    const take = (element, box, set) => {
      const fits = box !== undefined;
      element.classList.toggle("crowded", !fits);
      if (fits) taken.push(box);
      set(box);
    };
    const around = (x, y, width) => ({ left: x - width / 2 - 2, right: x + width / 2 + 2, top: y - 7, bottom: y + 7, x, y });
    for (const node of [...nodes].sort((a, b) => a.hops - b.hops || b.ties.length - a.ties.length)) {
      const [[x, y], r] = [onScreen(node), radius(node)];
      const [ax, ay] = away(node);
      const places = [[0, 1], [0, -1], [1, 0], [-1, 0]]
        .sort(([ux, uy], [vx, vy]) => vx * ax + vy * ay - ux * ax - uy * ay)
        .map(([dx, dy]) => [dx * (r + 6 + node.width / 2), dy * (r + 11)]);
      const boxes = places.map(([dx, dy]) => around(x + dx, y + dy, node.width));
      const box = boxes.find(free) ?? (node === nodes[0] ? boxes[0] : undefined);
      take(node.label, box, (at) => {
        node.label.setAttribute("x", at ? at.x - x : 0);
        node.label.setAttribute("y", (at ? at.y - y : r + 11) + 4);
      });
    }
    for (const tie of ties) {
      if (tie.state === "later") continue;
      const [[x, y], [dx, dy, length]] = [tie.middle, tie.towards ?? [0, 0, 0]];
      const box = [0, -0.12, 0.12, 0.2].map((part) => around(x + dx * length * part, y + dy * length * part, tie.width)).find(free);
      take(tie.label, box, (at) => {
        tie.label.setAttribute("x", at ? at.x : x);
        tie.label.setAttribute("y", at ? at.y : y);
      });
    }
  }

  function light(node) {
    const near = node && new Set([node, ...node.ties.filter((tie) => tie.state !== "later").flatMap((tie) => tie.ends)]);
    for (const each of nodes) {
      each.element.classList.toggle("lit", each === node);
      each.element.classList.toggle("aside", Boolean(near) && !near.has(each));
    }
    for (const tie of ties) {
      const mine = Boolean(near) && tie.ends.includes(node);
      tie.element.classList.toggle("lit", mine);
      tie.element.classList.toggle("aside", Boolean(near) && !mine);
    }
  }

  // ── zoom ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

  let within = false;
  let chosen = false;
  const zoom = d3.zoom()
    .scaleExtent([LEAST_SCALE, MOST_SCALE])
    .filter((event) => {
      if (event.type === "wheel") return within || event.ctrlKey;
      if (event.type.startsWith("touch")) return event.touches.length > 1;
      return !event.ctrlKey && !event.button;
    })
    .on("zoom", (event) => {
      seen = event.transform;
      chosen ||= Boolean(event.sourceEvent);
      render();
    });
  const moving = () => (calm.matches ? svg : svg.transition().duration(250));

  function fitting() {
    const { width, height } = svg.node().getBoundingClientRect();
    const ends = (values) => [Math.min(...values), Math.max(...values)];
    const [left, right] = ends(nodes.map((node) => node.x));
    const [top, bottom] = ends(nodes.map((node) => node.y));
    const margin = Math.min(90, width / 6), high = width < 480 ? height - 44 : height;  // on a phone above the buttons
    const fits = Math.min((width - 2 * margin) / (right - left || 1), (high - 60) / (bottom - top || 1));
    const scale = Math.max(Math.min(fits, 1.8), LEAST_SCALE);
    return d3.zoomIdentity.translate(width / 2, high / 2).scale(scale).translate(-(left + right) / 2, -(top + bottom) / 2);
  }

  function reveal(node) {
    const { width, height } = svg.node().getBoundingClientRect();
    const [x, y] = onScreen(node);
    if (x < 20 || y < 20 || x > width - 20 || y > height - 20) zoom.translateTo(svg, node.x, node.y);
  }

  // ── keys ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

  const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

  function walk(event, node) {
    const way = WAYS[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const ahead = (other) => {
      const [dx, dy] = [other.x - node.x, other.y - node.y];
      return (dx * way[0] + dy * way[1]) / (Math.hypot(dx, dy) || 1);
    };
    const others = node.ties.filter((tie) => tie.state !== "later").flatMap((tie) => tie.ends).filter((other) => other !== node);
    const [best] = others.filter((other) => ahead(other) > 0.3).sort((a, b) => ahead(b) - ahead(a));
    if (!best) return;
    node.element.setAttribute("tabindex", -1);
    best.element.setAttribute("tabindex", 0);
    best.element.focus();
  }

  // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

  const slider = document.getElementById("time");
  const field = document.querySelector("#as-of input");
  const now = stops.findIndex((stop) => stop.title === "now");
  const held = new URLSearchParams(location.search).get("as_of") || null;
  const stateAt = (tie, at) => (tie.from > at ? "later" : tie.to > at ? "holds" : "ended");

  function address(at, name) {
    const to = new URL(at, location.href);
    if (name !== undefined) to.searchParams.set("entity", name);
    if (state.iso) to.searchParams.set("as_of", state.iso);
    else to.searchParams.delete("as_of");
    return to.pathname + to.search + to.hash;
  }

  // The position of the slider; -1 before the first change.
  const state = { at: asked, iso: held, place: held === null ? now : stops.findLastIndex((stop) => stop.at <= asked) };

  function show() {
    ties.forEach((tie, place) => {
      tie.state = stateAt(tie, state.at);
      tie.element.setAttribute("class", tie.state);
      rows[place].className = tie.state;
      rows[place].hidden = tie.state === "later";
    });
    for (const node of nodes) {
      const middle = node === nodes[0];
      node.element.classList.toggle("later", !middle && node.ties.every((tie) => tie.state === "later"));
      node.element.classList.toggle("past", !middle && !holding(node));
      node.element.setAttribute("aria-label", told(node));
      node.element.setAttribute("href", address(figure.dataset.address, node.name));
    }
    for (const link of document.querySelectorAll("a[data-keeps]")) link.setAttribute("href", address(link.getAttribute("href")));
    if (field.type === "hidden") field.value = state.iso ?? "";
  }

  const count = (wanted) => ties.filter((tie) => tie.state === wanted).length;

  function tell(place) {
    const [stop, before] = [stops[place], place > 0 ? stops[place - 1].at : -Infinity];
    const changed = (what) => ties.filter((tie) => tie[what] > before && tie[what] <= stop.at).length;
    const [begun, over] = [changed("from"), changed("to")];
    const holds = count("holds");
    document.getElementById("told").textContent =
      `${stop.title}: +${begun} −${over}, ${holds} ${holds === 1 ? "relation holds" : "relations hold"}, ${count("ended")} ended`;
  }

  function turn(place) {
    const stop = stops[place];
    Object.assign(state, { at: stop.at, iso: place === now ? null : stop.iso, place });
    mark(stop.title);
    show();
    label();
    tell(place);
  }

  // Not while the slider is drawn along: browsers refuse an address that changes hundreds of times.
  const keep = () => history.replaceState(history.state, "", address(location.href));

  function mark(title) {
    slider.value = state.place;
    document.getElementById("moment").textContent = title;
    slider.setAttribute("aria-valuetext", title);
    for (const button of document.querySelectorAll("[data-step]")) {
      const to = state.place + Number(button.dataset.step);
      button.disabled = to < 0 || to >= stops.length;
    }
  }

  function tune() {
    if (slider === null) return;
    Object.assign(field, { type: "hidden", value: state.iso ?? "" });
    mark(held === null ? "now" : new Date(asked).toISOString().slice(0, 10));
    slider.addEventListener("input", () => turn(Number(slider.value)));
    slider.addEventListener("change", keep);
    for (const button of document.querySelectorAll("[data-step]")) {
      button.addEventListener("click", () => {
        turn(state.place + Number(button.dataset.step));
        keep();
      });
    }
  }

  // ── all of it ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  place();
  draw();
  show();
  svg.call(zoom).on("dblclick.zoom", null);
  tune();
  figure.addEventListener("pointerdown", () => { within = true; });
  figure.addEventListener("pointerleave", () => { within = false; });
  for (const button of figure.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      chosen = button.dataset.zoom !== "fit";
      if (chosen) moving().call(zoom.scaleBy, Number(button.dataset.zoom));
      else moving().call(zoom.transform, fitting());
    });
  }
  // It tells of the first size as well.
  new ResizeObserver(() => { if (!chosen) svg.call(zoom.transform, fitting()); }).observe(svg.node());
}

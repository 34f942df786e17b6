"use strict";
const LINE = 28; // pixels of a row in the list, as page.css has it
const AHEAD = 12; // rows drawn above and below what is visible
const IN_MEMORY = 3e8; // characters of texts that stay unpacked
const FEW = 40; // chunks that stay unpacked where all would be too many
const MOST_FORMULAS = 3000; // of a text: more are shown as written
const WORDS = /^(?=.*(\p{L}{2}|\p{L}\d))[\p{L}\d .,:;'-]+$/u; // of a box: no mathematics, which has no blanks
const FORMULA = new RegExp(
  [
    /\$\$([^]{1,4000}?)\$\$/, /\\\[([^]{1,4000}?)\\\]/, /\\\(([^]{1,2000}?)\\\)/, /\$(?!\s)([^$\n]{1,1000}?)(?<!\s)\$(?!\d)/,
    /(\\begin\{(\w{1,20}\*?)\}[^]{1,4000}?\\end\{\6\})/, /\\(?:boxed|fbox)\s*(?=\{)/,
  ].map((part) => part.source).join("|"), "g");

const $ = (id) => document.getElementById(id);
const parsed = new Promise((resolve) => addEventListener("DOMContentLoaded", resolve));
const unpacked = new Map(); // number of a chunk -> promise of its rows
const decisions = new Map(); // id -> {decision, reviewer, note}
let index, starts, keepAll, positions;
let matches = [], selected = -1, latest = 0, saved = true;

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

async function unpack(name) {
  const packed = atob($(name).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// --- texts: unpacked a chunk at a time

function load(chunk) {
  if (!unpacked.has(chunk)) {
    unpacked.set(chunk, parsed.then(() => unpack(`texts-${chunk}`)).then((rows) => ({ rows, searched: null })));
    if (!keepAll && unpacked.size > FEW) unpacked.delete(unpacked.keys().next().value);
  }
  return unpacked.get(chunk);
}

function chunkOf(row) {
  let low = 0, high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= row) low = middle; else high = middle - 1;
  }
  return low;
}

async function textsOf(row) {
  const chunk = chunkOf(row);
  const [problem, gold, response, duplicateOf, duplicateProblem, notes, turns] = (await load(chunk)).rows[row - starts[chunk]];
  return { problem, gold, response, duplicateOf, duplicateProblem, notes, turns };
}

function searched(chunk, number) {
  chunk.searched ??= chunk.rows.map((texts, k) =>
    [index.ids[starts[number] + k], ...texts.slice(0, 5), ...Object.values(texts[5])].join("\n").toLowerCase());
  return chunk.searched;
}

const pause = () => new Promise((resolve) => setTimeout(resolve));

async function unpackAhead() {
  await parsed;
  for (let chunk = 0; keepAll && chunk < starts.length; chunk++) {
    searched(await load(chunk), chunk);
    await pause();
  }
}

// --- filters

function candidates() {
  const rows = [];
  const facets = index.facets.map((facet) => [facet.codes, facet.select.value]).filter(([, value]) => value !== "");
  const least = Number($("shortest").value || 0), most = Number($("longest").value || Infinity);
  const decision = index.review ? $("decision").value : "";
  for (let row = 0; row < index.ids.length; row++) {
    if (index.lengths[row] < least || index.lengths[row] > most) continue;
    if (decision && (decisions.get(index.ids[row])?.decision ?? "none") !== decision) continue;
    if (facets.every(([codes, value]) => codes[row] === Number(value))) rows.push(row);
  }
  return rows;
}

async function filter() {
  const turn = ++latest, began = performance.now(), query = $("query").value.trim().toLowerCase();
  const rows = candidates();
  let result = rows;
  if (query) {
    result = [];
    let shown = began;
    for (let next = 0; next < rows.length;) {
      const number = chunkOf(rows[next]);
      const texts = searched(await load(number), number);
      if (turn !== latest) return;
      for (; next < rows.length && rows[next] < starts[number] + texts.length; next++) {
        if (texts[rows[next] - starts[number]].includes(query)) result.push(rows[next]);
      }
      if (performance.now() - shown > 100) {
        present(result, `searching, ${Math.round((100 * next) / rows.length)}%: `);
        await pause();
        if (turn !== latest) return;
        shown = performance.now();
      }
    }
  }
  present(result, "");
  if (!result.includes(selected)) choose(result.length ? result[0] : -1); else choose(selected);
  performance.measure("filter", { start: began, end: performance.now() });
}

function present(rows, note) {
  matches = rows;
  $("count").value = `${note}${rows.length.toLocaleString("en")} of ${index.ids.length.toLocaleString("en")} rows`;
  $("height").style.height = `${rows.length * LINE}px`;
  draw();
}

// --- the list: only what is visible is drawn

function draw() {
  const list = $("list");
  const first = Math.max(0, Math.floor(list.scrollTop / LINE) - AHEAD);
  const last = Math.min(matches.length, Math.ceil((list.scrollTop + list.clientHeight) / LINE) + AHEAD);
  const lines = [];
  for (let k = first; k < last; k++) lines.push(line(matches[k], k));
  $("height").replaceChildren(...lines);
}

function line(row, k) {
  const { names, codes } = { names: index.facets[0]?.values ?? [], codes: index.facets[0]?.codes ?? [] };
  const made = element("div", { className: "line", role: "option", ariaSelected: String(row === selected) },
    element("span", { className: "mark", textContent: { keep: "✓", refuse: "✗" }[decisions.get(index.ids[row])?.decision] ?? "" }),
    element("span", { className: "reason", textContent: names[codes[row]] ?? "" }),
    element("span", { className: "length", textContent: index.lengths[row].toLocaleString("en") }),
    element("span", { className: "name", textContent: index.titles[row] || index.ids[row] }));
  made.style.top = `${k * LINE}px`;
  made.dataset.row = row;
  return made;
}

function move(by) {
  const at = matches.indexOf(selected);
  const next = Math.min(matches.length - 1, Math.max(0, at + by));
  if (next < 0) return;
  const list = $("list"), top = next * LINE;
  if (top < list.scrollTop) list.scrollTop = top;
  if (top + LINE > list.scrollTop + list.clientHeight) list.scrollTop = top + LINE - list.clientHeight;
  choose(matches[next]);
}

// --- one row

async function choose(row) {
  selected = row;
  draw();
  if (row < 0) return $("row").replaceChildren(element("p", { textContent: "No row fits the filters." }));
  const texts = await textsOf(row);
  const at = texts.duplicateOf ? positions().get(texts.duplicateOf) : undefined;
  const original = at === undefined ? null : await textsOf(at);
  if (row !== selected) return;
  show(row, texts, original);
  performance.mark("row-shown");
}

function show(row, texts, original) {
  const { thoughts, answer } = split(texts.response);
  const facts = [...index.facets.map((facet) => [facet.name, facet.values[facet.codes[row]]]),
    ["characters", index.lengths[row].toLocaleString("en")], ...Object.entries(texts.notes)];
  const parts = [
    element("h2", { textContent: index.ids[row] }),
    element("dl", {}, ...facts.filter(([, value]) => value).map(([name, value]) =>
      element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value })))),
  ];
  if (index.review) parts.push(controls(index.ids[row]));
  const besides = original ? original.problem : texts.duplicateProblem;
  parts.push(pair(section("Problem", "problem", texts.problem),
    texts.duplicateOf && section(`Repeats ${texts.duplicateOf}`, "duplicate", besides || "This row is not on the page.")));
  parts.push(pair(section(thoughts === null ? "Response, without thoughts that end" : "Final answer", "answer", answer),
    section("Gold answer", "gold", texts.gold)));
  if (texts.turns) {
    parts.push(element("section", { className: "thoughts turns" }, element("h3", { textContent: "Turns, and what tools said" }),
      ...texts.turns.map(([role, text]) => element("div", { className: `words ${role}`, textContent: text }))));
  }
  const others = original && split(original.response);
  if (thoughts !== null || others) {
    parts.push(pair(section("Thoughts", "thoughts", thoughts ?? ""),
      others && section(`Response of ${texts.duplicateOf}`, "thoughts duplicate-response", `${others.thoughts ?? ""}\n\n${others.answer}`)));
  }
  $("row").replaceChildren(...parts);
  $("row").scrollTop = 0;
  highlight();
}

function split(response) {
  const end = response.lastIndexOf("</think>");
  if (end < 0) return { thoughts: null, answer: response };
  return { thoughts: response.slice(0, end).replace(/^\s*<think>/, "").trim(), answer: response.slice(end + 8).trim() };
}

function pair(left, right) {
  return element("div", { className: right ? "pair" : "" }, left, ...(right ? [right] : []));
}

function section(title, name, text) {
  const body = element("div", { className: "words" });
  if ($("raw").checked) body.textContent = text;
  else if (name === "gold" && /[\\^_{]/.test(text) && !/\$|\\[([]/.test(text)) body.append(formula(text, text, false));
  else body.append(...withFormulas(text));
  return element("section", { className: name }, element("h3", { textContent: title }), body);
}

function withFormulas(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(FORMULA)) {
    if (match.index < at) continue;
    if (parts.length > 2 * MOST_FORMULAS) break;
    let [whole, block, bracketed, inline, dollars, environment] = match;
    let tex = block ?? bracketed ?? inline ?? dollars ?? environment;
    if (tex === undefined) { // a box outside of a formula
      whole = box(text, match.index, match[0].length);
      if (!whole) continue;
      const inside = whole.slice(match[0].length + 1, -1);
      tex = WORDS.test(inside) ? `\\boxed{\\text{${inside}}}` : whole;
    }
    parts.push(text.slice(at, match.index), formula(tex, whole, (block ?? bracketed ?? environment) !== undefined));
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}

function box(text, start, length) {
  for (let k = start + length, depth = 0; k < Math.min(text.length, start + 2000); k++) {
    if (text[k] === "\\") k++;
    else if (text[k] === "{") depth++;
    else if (text[k] === "}" && --depth === 0) return text.slice(start, k + 1);
  }
  return "";
}

function formula(tex, whole, displayMode) {
  const made = element("span", { title: whole });
  try {
    katex.render(tex, made, { displayMode, trust: false, maxSize: 20, maxExpand: 200, strict: "ignore" });
  } catch { // whatever KaTeX does not understand is shown as it is written
    made.className = "unrendered";
    made.textContent = whole;
  }
  return made;
}

function highlight() {
  const query = $("query").value.trim().toLowerCase();
  CSS.highlights?.delete("query");
  if (!query || !CSS.highlights) return;
  const marked = new Highlight();
  const walker = document.createTreeWalker($("row"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && marked.size < 500) {
    const text = walker.currentNode.data.toLowerCase();
    if (text.length !== walker.currentNode.length) continue; // a letter whose small form is longer
    for (let at = text.indexOf(query); at >= 0 && marked.size < 500; at = text.indexOf(query, at + query.length)) {
      const range = new Range();
      range.setStart(walker.currentNode, at);
      range.setEnd(walker.currentNode, at + query.length);
      marked.add(range);
    }
  }
  CSS.highlights.set("query", marked);
}

// --- decisions

function controls(id) {
  const before = decisions.get(id);
  const note = element("input", { id: "note", placeholder: "why", value: before?.note ?? "" });
  note.addEventListener("change", () => decisions.has(id) && decide(id, decisions.get(id).decision));
  const made = element("p", { className: "decide" }, "Decision ");
  for (const decision of ["none", "keep", "refuse"]) {
    const button = element("input", { type: "radio", name: "decide", value: decision, checked: (before?.decision ?? "none") === decision });
    button.addEventListener("change", () => decide(id, decision));
    made.append(element("label", {}, button, ` ${decision} `));
  }
  made.append(element("label", {}, " Note ", note));
  return made;
}

function decide(id, decision) {
  if (decision === "none") decisions.delete(id);
  else decisions.set(id, { decision, reviewer: $("reviewer").value, note: $("note").value });
  saved = false;
  decided();
}

function decided() {
  const all = [...decisions.values()];
  const refused = all.filter((one) => one.decision === "refuse").length;
  $("decided").value = all.length ? `${refused} refused, ${all.length - refused} kept` : "";
  $("download").disabled = !all.length;
  draw();
}

const quoted = (text) => (/[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function download() {
  const rows = [["id", "decision", "reviewer", "note"]];
  for (const [id, one] of decisions) rows.push([id, one.decision, one.reviewer, one.note]);
  const text = rows.map((row) => row.map(quoted).join(",") + "\n").join("");
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "review.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  saved = true;
}

function values(text) {
  const rows = [[]];
  let value = "", inQuotes = false;
  for (let k = 0; k < text.length; k++) {
    const letter = text[k];
    if (inQuotes && letter === '"' && text[k + 1] === '"') { value += '"'; k++; }
    else if (letter === '"') inQuotes = !inQuotes;
    else if (inQuotes || !",\r\n".includes(letter)) value += letter;
    else if (letter !== "\r") {
      rows.at(-1).push(value);
      value = "";
      if (letter === "\n") rows.push([]);
    }
  }
  rows.at(-1).push(value);
  return rows.filter((row) => row.join(""));
}

async function continueReview(file) {
  const [header, ...rows] = values((await file.text()).replace(/^\ufeff/, ""));
  const at = ["id", "decision", "reviewer", "note"].map((name) => header?.indexOf(name) ?? -1);
  if (at.includes(-1)) return ($("decided").value = `${file.name} has no columns id, decision, reviewer, note`);
  for (const row of rows) {
    const [id, decision, reviewer, note] = at.map((column) => row[column] ?? "");
    if (id && ["keep", "refuse"].includes(decision.trim().toLowerCase())) {
      decisions.set(id, { decision: decision.trim().toLowerCase(), reviewer, note });
    }
  }
  decided();
  filter();
}

// --- the page

function facetFilter(facet) {
  const counts = new Array(facet.values.length).fill(0);
  for (const code of facet.codes) counts[code]++;
  const numeric = facet.values.every((value) => value !== "" && !isNaN(value));
  const order = facet.values.map((_, code) => code);
  order.sort((a, b) => (numeric ? facet.values[a] - facet.values[b] : counts[b] - counts[a]));
  facet.select = element("select", { name: facet.name }, element("option", { value: "", textContent: "any" }),
    ...order.map((code) => element("option", { value: code,
      textContent: `${facet.values[code] || "—"} (${counts[code].toLocaleString("en")})` })));
  facet.select.addEventListener("change", filter);
  return element("label", {}, `${facet.name} `, facet.select);
}

function keys(event) {
  if (/^(INPUT|SELECT)$/.test(event.target.tagName) && event.target.type !== "radio") return;
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 };
  if (event.key in steps && event.target.type !== "radio") {
    event.preventDefault();
    move(steps[event.key]);
  } else if (index.review && selected >= 0 && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const decision = { k: "keep", r: "refuse", n: "none" }[event.key];
    if (decision) document.querySelector(`input[name=decide][value=${decision}]`).click();
  }
}

async function start() {
  index = await unpack("index");
  let start = 0;
  starts = index.chunks.map((rows) => (start += rows) - rows);
  keepAll = index.lengths.reduce((sum, length) => sum + Math.min(length, index.longest), 0) < IN_MEMORY;
  let known;
  positions = () => (known ??= new Map(index.ids.map((id, row) => [id, row])));
  $("title").textContent = index.title;
  const sampled = index.step > 1 ? { shown: `every ${index.step}th of ${index.count.toLocaleString("en")} rows` } : {};
  $("summary").textContent = Object.entries({ ...index.summary, ...sampled }).map(([name, value]) => `${name}: ${value}`).join(" · ");
  $("as-written").before(...index.facets.map(facetFilter));
  for (const name of ["query", "shortest", "longest"]) $(name).addEventListener("input", filter);
  $("raw").addEventListener("change", () => choose(selected));
  $("list").addEventListener("scroll", draw);
  $("list").addEventListener("click", (event) => {
    const chosen = event.target.closest(".line");
    if (chosen) choose(Number(chosen.dataset.row));
  });
  addEventListener("resize", draw);
  addEventListener("keydown", keys);
  if (index.review) {
    $("review").hidden = false;
    $("decision").addEventListener("change", filter);
    $("download").addEventListener("click", download);
    $("earlier").addEventListener("change", (event) => event.target.files[0] && continueReview(event.target.files[0]));
    addEventListener("beforeunload", (event) => !saved && event.preventDefault());
  }
  filter();
  performance.mark("list-shown");
  unpackAhead();
}

start();

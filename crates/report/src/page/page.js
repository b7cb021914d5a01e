"use strict";
(() => {
  const every = (selector, root = document) => [...root.querySelectorAll(selector)];
  const said = document.getElementById("said");
  const say = (text) => { said.textContent = ""; setTimeout(() => { said.textContent = text; }, 50); };

  // Details are folded away here, so that a reader without scripts sees them all.
  for (const detail of every("tr.detail")) detail.hidden = true;
  for (const cell of every("[data-detail]")) {
    const detail = document.getElementById(cell.dataset.detail);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "fold";
    button.textContent = cell.textContent;
    button.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-controls", detail.id);
    button.addEventListener("click", () => {
      detail.hidden = !detail.hidden;
      button.setAttribute("aria-expanded", String(!detail.hidden));
    });
    cell.replaceChildren(button);
  }

  const isNumber = (heading) => !heading.classList.contains("w") && heading.cellIndex > 0;
  const text = (cell) => cell.textContent.trim();
  const amount = (cell) => {
    const number = Number.parseFloat(text(cell).replace(/[,≥]/g, ""));
    return Number.isNaN(number) ? -Infinity : number;
  };

  // A row and what unfolds below it are one body of the table, and move together.
  const sort = (table, at, heading) => {
    const ofNumbers = isNumber(heading);
    // Numbers begin with the largest, words with the first.
    const before = heading.getAttribute("aria-sort");
    const ascends = before === "descending" || (!before && !ofNumbers);
    for (const other of every("thead th", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascends ? "ascending" : "descending");
    const sign = ascends ? 1 : -1;
    const cell = (body) => body.rows[0].cells[at];
    const compare = (a, b) => ofNumbers ? amount(cell(a)) - amount(cell(b)) : text(cell(a)).localeCompare(text(cell(b)), "en", { numeric: true });
    const bodies = [...table.tBodies].map((body, place) => ({ body, place }));
    bodies.sort((a, b) => sign * compare(a.body, b.body) || a.place - b.place);
    table.append(...bodies.map((entry) => entry.body));
    say(`Sorted by ${text(heading)}, ${ascends ? "ascending" : "descending"}`);
  };
  for (const table of every("main > section table")) {
    if (table.closest("tr.detail") || table.tBodies.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => sort(table, at, heading));
    });
  }

  const rows = (table) => [...table.tBodies].flatMap((body) => [...body.rows].filter((row) => !row.classList.contains("detail")));
  const headings = (table) => [...table.tHead.rows[0].cells];
  const markdown = (table) => {
    // Words that GitHub acts upon whatever escapes they have are code.
    const isActive = (word) => /[@$]|:\/\/|www\.|(#|GH-)\d|:[\w+-]+:/i.test(word);
    const fence = (word) => "`".repeat(Math.max(1, ...(word.match(/`+/g) ?? []).map((run) => run.length)) + 1);
    const code = (word) => `${fence(word)} ${word.replace(/\|/g, "\\|")} ${fence(word)}`;
    const plain = (word) => word.replace(/[\\|`*_[\]#~]/g, "\\$&").replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
    const escaped = (value) => value.split(" ").map((word) => isActive(word) ? code(word) : plain(word)).join(" ");
    const line = (cells) => `| ${cells.join(" | ")} |\n`;
    const rules = headings(table).map((heading) => isNumber(heading) ? "--:" : ":--");
    return line(headings(table).map((cell) => escaped(text(cell)))) + line(rules) +
      rows(table).map((row) => line([...row.cells].map((cell) => escaped(text(cell))))).join("");
  };
  const csv = (table) => {
    // A spreadsheet must not run what is text.
    const word = (value) => /^[=+\-@\t\r\n]/.test(value) && value !== "-" ? `'${value}` : value;
    const quoted = (value) => /[",\r\n]/.test(value) ? `"${value.replace(/"/g, '""')}"` : value;
    const value = (cell) => quoted(isNumber(cell) ? text(cell).replace(/,/g, "").replace(/^-$/, "") : word(text(cell)));
    const line = (cells) => `${cells.join(",")}\r\n`;
    return line(headings(table).map((cell) => quoted(word(text(cell))))) + rows(table).map((row) => line([...row.cells].map(value))).join("");
  };
  const toClipboard = async (content) => {
    try {
      await navigator.clipboard.writeText(content);
    } catch {
      const area = document.createElement("textarea");
      area.value = content;
      document.body.append(area);
      area.select();
      const isCopied = document.execCommand("copy");
      area.remove();
      if (!isCopied) throw new Error("the browser does not allow it");
    }
  };
  const copy = async (table, form, words) => {
    try {
      await toClipboard(form(table));
      say(`Copied as ${words}`);
    } catch (error) {
      say(`Not copied: ${error.message}`);
    }
  };
  for (const table of every("table")) {
    const tools = document.createElement("div");
    tools.className = "copy";
    for (const [words, form] of [["Markdown", markdown], ["CSV", csv]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.copy = words.toLowerCase();
      button.dataset.of = table.id;
      button.textContent = `Copy as ${words}`;
      button.addEventListener("click", async () => { await copy(table, form, words); button.focus(); });
      tools.append(button);
    }
    table.parentElement.before(tools);
  }

  // What has more to its right says so until that is seen.
  const hint = (box) => {
    box.classList.toggle("more", box.scrollWidth > box.clientWidth + 8);
    box.classList.toggle("end", box.scrollLeft + box.clientWidth >= box.scrollWidth - 8);
  };
  const boxes = every(".scroll");
  for (const box of boxes) box.addEventListener("scroll", () => hint(box), { passive: true });
  const hints = new ResizeObserver(() => boxes.forEach(hint));
  boxes.forEach((box) => hints.observe(box));

  for (const button of every("[data-record]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const content = new Blob([document.getElementById(button.dataset.record).textContent], { type: "application/json" });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(content);
      link.download = `${button.dataset.name}.json`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  const theme = document.getElementById("theme");
  const themes = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
  let chosen = themes.findIndex(([name]) => name === (document.documentElement.dataset.theme ?? ""));
  const show = () => {
    const [name, said] = themes[chosen];
    if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
    theme.textContent = `Theme: ${said}`;
  };
  theme.hidden = false;
  theme.addEventListener("click", () => { chosen = (chosen + 1) % themes.length; show(); });
  show();
})();

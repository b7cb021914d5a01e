// check.mjs SHOTS NAME=PAGE.html…: opens each page in headless Chromium as people would: on a phone, a laptop and a large
// screen, light and dark, and printed. No text lies on another or is cut off, nothing is asked of a network, everything can be
// done by keyboard, and axe-core finds nothing. Leaves a picture of each in the folder SHOTS. Prints a line for each check.
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [shots, ...named] = process.argv.slice(2);
const pages = named.map((pair) => { const at = pair.indexOf("="); return [pair.slice(0, at), pathToFileURL(pair.slice(at + 1)).href]; });
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [360, 800, 1600];
let passed = 0;
let failed = 0;

const check = (name, faults) => {
  if (faults.length === 0) { passed += 1; console.log(`page ${name} ... ok`); return; }
  failed += 1;
  console.log(`page ${name} ... FAILED`);
  for (const fault of faults.slice(0, 8)) console.log(`    ${fault}`);
  if (faults.length > 8) console.log(`    and ${faults.length - 8} more`);
};

// Runs within the page: texts that lie on one another, are cut off, or leave their box.
const textFaults = () => {
  const faults = [];
  const short = (text) => text.trim().replace(/\s+/g, " ").slice(0, 40);
  const isSeen = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const wide = document.documentElement.scrollWidth - window.innerWidth;
  if (wide > 0) faults.push(`the page is ${wide} px wider than the window`);

  // Each line of each text, where it is drawn.
  const lines = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("script,style,title,desc,.skip") || !isSeen(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = element.closest("svg") ? [element.getBoundingClientRect()] : [...range.getClientRects()];
    const tops = new Set(rects.map((rect) => Math.round(rect.top)));
    if (tops.size > 1 && element.closest("td:not(.w):not([colspan])") === element) faults.push(`the number ${short(node.data)} is broken into lines`);
    // A line's box is higher than what is drawn in it: of it count the middle 60%.
    for (const rect of rects) {
      if (rect.width < 1 || rect.height < 1) continue;
      const inset = rect.height * 0.2;
      lines.push({ node, element, left: rect.left, right: rect.right, top: rect.top + inset, bottom: rect.bottom - inset });
    }
  }
  lines.sort((a, b) => a.top - b.top);
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    for (let next = at + 1; next < lines.length && lines[next].top < line.bottom; next += 1) {
      const other = lines[next];
      const across = Math.min(line.right, other.right) - Math.max(line.left, other.left);
      const down = Math.min(line.bottom, other.bottom) - Math.max(line.top, other.top);
      if (across > 1 && down > 1) faults.push(`"${short(line.node.data)}" lies on "${short(other.node.data)}"`);
    }
  }

  // No box hides a part of its text; what scrolls is a region that the keyboard reaches.
  for (const line of lines) {
    for (let box = line.element; box && box !== document.body; box = box.parentElement) {
      const style = getComputedStyle(box);
      const rect = box.getBoundingClientRect();
      if (style.overflowX === "auto" || style.overflowX === "scroll") {
        if (box.tabIndex < 0) faults.push(`"${short(line.node.data)}" scrolls where no keyboard comes`);
        break;
      }
      const clips = style.overflowX !== "visible" || style.display === "table-cell" || box.tagName === "svg";
      if (clips && (line.right > rect.right + 1.5 || line.left < rect.left - 1.5 || line.bottom > rect.bottom + 1 || line.top < rect.top - 1)) {
        faults.push(`"${short(line.node.data)}" leaves its ${box.tagName.toLowerCase()}`);
        break;
      }
    }
  }
  return [...new Set(faults)];
};

// Everything that can be clicked is reached by Tab, in the order of the document, and shows that it is.
const focusFaults = async (page) => {
  const faults = [];
  const wanted = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], button, summary, [tabindex='0']")];
    const seen = all.filter((element) => element.checkVisibility());
    seen.forEach((element, at) => { element.dataset.order = at; });
    document.activeElement.blur();
    window.scrollTo(0, 0);
    return seen.length;
  });
  for (let at = 0; at < wanted; at += 1) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const element = document.activeElement;
      const style = getComputedStyle(element);
      const outlined = style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 2;
      const rect = element.getBoundingClientRect();
      const inside = rect.bottom > 0 && rect.top < window.innerHeight;
      return { order: element.dataset.order, name: `${element.tagName} ${element.textContent.trim().slice(0, 30)}`, outlined, inside };
    });
    if (found.order !== String(at)) { faults.push(`Tab ${at + 1} came to ${found.name}, element ${found.order}`); break; }
    if (!found.outlined) faults.push(`${found.name} does not show that it has the focus`);
    if (!found.inside) faults.push(`${found.name} has the focus and is not in view`);
  }
  return faults;
};

// Sorting, unfolding, copying and links, with the keyboard alone.
const keyboardFaults = async (page) => {
  const faults = [];
  const column = (id, at) => page.evaluate(([id, at]) => {
    const bodies = [...document.getElementById(id).tBodies];
    return bodies.map((body) => body.rows[0].cells[at].textContent.trim());
  }, [id, at]);
  const number = (text) => { const value = Number.parseFloat(text.replace(/[,≥]/g, "")); return Number.isNaN(value) ? -Infinity : value; };
  const tables = await page.evaluate(() => [...document.querySelectorAll("main > section table")]
    .filter((table) => table.checkVisibility() && !table.closest("tr.detail"))
    .map((table) => ({ id: table.id, headings: [...table.tHead.rows[0].cells].map((cell) => ({ isNumber: !cell.classList.contains("w") && cell.cellIndex > 0, sorts: !!cell.querySelector("button") })) })));
  for (const { id, headings } of tables) {
    for (const [at, { isNumber, sorts }] of headings.entries()) {
      if (!sorts) continue;
      for (const direction of isNumber ? ["descending", "ascending"] : ["ascending", "descending"]) {
        const button = page.locator(`#${id} > thead th:nth-child(${at + 1}) button`);
        await button.focus();
        await page.keyboard.press("Enter");
        const said = await page.locator(`#${id} > thead th:nth-child(${at + 1})`).getAttribute("aria-sort");
        if (said !== direction) faults.push(`${id}: column ${at + 1} is said to be ${said}, not ${direction}`);
        const cells = await column(id, at);
        const before = (a, b) => (isNumber ? number(a) - number(b) : a.localeCompare(b, "en", { numeric: true }));
        const sign = direction === "ascending" ? 1 : -1;
        if (cells.some((cell, row) => row > 0 && sign * before(cells[row - 1], cell) > 0)) faults.push(`${id}: column ${at + 1} is not ${direction}: ${cells.join(" ")}`);
      }
    }
    for (const form of ["markdown", "csv"]) {
      const button = page.locator(`[data-copy=${form}][data-of=${id}]`);
      if (await button.count() !== 1) { faults.push(`${id} cannot be copied as ${form}`); continue; }
      await button.focus();
      await page.keyboard.press("Space");
      await page.waitForFunction(() => document.getElementById("said").textContent.startsWith("Copied"), null, { timeout: 2000 }).catch(() => faults.push(`${id}: copying as ${form} says nothing`));
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      const rows = await page.evaluate((id) => [...document.getElementById(id).tBodies].map((body) => [...body.rows[0].cells].map((cell) => [!cell.classList.contains("w") && cell.cellIndex > 0, cell.textContent.trim()])), id);
      const lines = copied.trimEnd().split(form === "csv" ? "\r\n" : "\n").slice(form === "csv" ? 1 : 2);
      if (lines.length !== rows.length) faults.push(`${id}: ${lines.length} lines of ${form} for ${rows.length} rows`);
      for (const [at, row] of rows.entries()) {
        for (const [isNumber, cell] of row) {
          const wanted = form === "csv" && isNumber ? cell.replace(/,/g, "").replace(/^-$/, "") : cell;
          const plain = (lines[at] ?? "").replace(/\\(.)/g, "$1").replace(/""/g, '"').replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
          if (!plain.includes(wanted)) faults.push(`${id}: ${form} lacks ${wanted} in ${lines[at]}`);
        }
      }
    }
  }
  for (const fold of await page.locator("button.fold").all()) {
    if (!(await fold.isVisible())) continue;
    const detail = page.locator(`#${await fold.getAttribute("aria-controls")}`);
    await fold.focus();
    await page.keyboard.press("Enter");
    if (!(await detail.isVisible()) || await fold.getAttribute("aria-expanded") !== "true") faults.push(`${await fold.textContent()} does not unfold`);
  }
  for (const link of await page.locator("nav a").all()) {
    await link.focus();
    await page.keyboard.press("Enter");
    const target = await link.getAttribute("href");
    const top = await page.locator(target).evaluate((element) => element.getBoundingClientRect().top);
    const height = await page.evaluate(() => window.innerHeight);
    if (top < -2 || top > height) faults.push(`${target} is not in view after its link`);
  }
  for (const summary of await page.locator("summary").all()) {
    await summary.focus();
    await page.keyboard.press("Enter");
    if (!(await summary.evaluate((element) => element.parentElement.open))) faults.push("what is folded away does not unfold");
  }
  return faults;
};

const axeFaults = async (page) => {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.target.join(" ")}`));
};

await mkdir(shots, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
for (const [name, url] of pages) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of WIDTHS) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, permissions: ["clipboard-read", "clipboard-write"], reducedMotion: "reduce" });
      const page = await context.newPage();
      const asked = [];
      page.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) asked.push(`asked for ${request.url()}`); });
      page.on("console", (message) => { if (["error", "warning"].includes(message.type())) asked.push(`console: ${message.text()}`); });
      page.on("pageerror", (error) => asked.push(`script: ${error.message}`));
      await page.goto(url);
      await page.evaluate(() => document.fonts.ready);
      const at = `${name}, ${width} px, ${colorScheme}`;
      await page.screenshot({ path: `${shots}/${name}-${width}-${colorScheme}.png`, fullPage: true });
      check(`${at}: text`, await page.evaluate(textFaults));
      check(`${at}: axe`, await axeFaults(page));
      if (colorScheme === "light" && width !== 1600) check(`${at}: focus`, await focusFaults(page));
      if (colorScheme === "light" && width === 800) check(`${at}: keyboard`, await keyboardFaults(page));
      // All of it unfolded.
      await page.evaluate(() => {
        for (const detail of document.querySelectorAll("tr.detail")) detail.hidden = false;
        for (const details of document.querySelectorAll("details")) details.open = true;
        // A name that stays in view lies on what is scrolled below it.
        for (const group of document.querySelectorAll(".scroll")) group.scrollLeft = 0;
      });
      await page.screenshot({ path: `${shots}/${name}-${width}-${colorScheme}-unfolded.png`, fullPage: true });
      check(`${at}, unfolded: text`, await page.evaluate(textFaults));
      check(`${at}, unfolded: axe`, await axeFaults(page));
      check(`${at}: no network, no errors`, asked);
      await context.close();
    }
  }
  // As wide as a sheet of A4 on its side within its margins, 277 mm at 96 dots per inch.
  const context = await browser.newContext({ viewport: { width: 1046, height: 718 }, colorScheme: "dark" });
  const page = await context.newPage();
  await page.goto(url);
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => document.fonts.ready);
  check(`${name}, printed: text`, await page.evaluate(textFaults));
  const paper = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  check(`${name}, printed: on white`, paper === "rgb(255, 255, 255)" ? [] : [`the paper is ${paper}`]);
  const folded = await page.evaluate(() => [...document.querySelectorAll("details")]
    .filter((details) => [...details.children].some((child) => child.tagName !== "SUMMARY" && getComputedStyle(child).display !== "none" && !child.getBoundingClientRect().height))
    .map((details) => `${details.querySelector("summary").textContent} is folded`));
  check(`${name}, printed: all of it`, folded);
  await page.screenshot({ path: `${shots}/${name}-print.png`, fullPage: true });
  await page.pdf({ path: `${shots}/${name}.pdf`, preferCSSPageSize: true, printBackground: false });
  await context.close();
}
await browser.close();
console.log(`test result: ${failed === 0 ? "ok" : "FAILED"}. ${passed} passed; ${failed} failed; 0 ignored`);
process.exit(failed === 0 ? 0 : 1);

// What of a page's texts is hard to read, as an expression for the browser.
#pragma once

namespace greta {

/// Every text's contrast with what lies behind it, by WCAG 2's formula; text that is smaller than
/// 24 px, or 18.66 px and bold, needs 4.5.
inline constexpr const char* kTooLittleContrast = R"js((() => {
  const parse = (color) => {
    const n = color.match(/[\d.]+/g).map(Number);
    return color.startsWith("color(srgb") ? [n[0] * 255, n[1] * 255, n[2] * 255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1];
  };
  const light = ([r, g, b]) => {
    const f = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (element) => {
    if (!element) return [255, 255, 255, 1];
    const own = parse(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(element.parentElement));
  };
  const page = parse(getComputedStyle(document.body).backgroundColor);
  const bad = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest("script, style, [hidden], title")) continue;
    if (!element.closest("details")?.open && element.closest("details") && !element.closest("summary")) continue;
    const style = getComputedStyle(element);
    const svg = element.closest("svg");
    const back = svg && element.tagName === "text" ? page : behind(element);
    const ink = over(parse(svg ? style.fill : style.color), back);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
    const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    if (ratio < least) bad.add(`${element.tagName}.${element.className.baseVal ?? element.className} ${ratio.toFixed(2)} ${walker.currentNode.textContent.trim().slice(0, 30)}`);
  }
  // letters that the style puts into cells
  for (const element of document.querySelectorAll("td.u, td.i, td.c, td.n, .cell.u, .cell.i, .cell.c, .cell.n")) {
    const back = behind(element);
    const [a, b] = [light(parse(getComputedStyle(element, "::before").color)), light(back)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(element.className);
  }
  for (const element of document.querySelectorAll(".broken, .changed, .fixed, .rounded")) {
    const back = behind(element);
    const [a, b] = [light(parse(getComputedStyle(element, "::after").color)), light(back)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.add(element.className);
  }
  for (const element of document.querySelectorAll("input[placeholder]")) {
    const back = behind(element);
    const [a, b] = [light(over(parse(getComputedStyle(element, "::placeholder").color), back)), light(back)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.add("placeholder");
  }
  return [...bad];
})())js";

}  // namespace greta

// Functions that run inside the page: contrast, names of controls, width, and what has the focus.

/** Texts whose contrast against their background is below WCAG AA (4.5:1). Returns a line for each. */
export function lowContrast() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([red, green, blue]) => [red, green, blue].map((value) => value / 255)
    .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((total, value, index) => total + value * [0.2126, 0.7152, 0.0722][index], 0);
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
    if (!hasText || !element.checkVisibility() || element.closest(":disabled, [aria-disabled]")) continue;
    const style = getComputedStyle(element);
    const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
    const [light, dark] = [luminance(ink), luminance(background(element))].sort((first, second) => second - first);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${element.tagName} "${element.textContent.slice(0, 30)}"`);
  }
  return found;
}

/** Elements that reach beyond the right edge of the window, unless they are inside a region that scrolls; and the page, if it scrolls sideways. */
export function tooWide() {
  const found = [];
  const page = document.scrollingElement;
  if (page.scrollWidth > innerWidth) found.push(`the page has ${page.scrollWidth} px`);
  for (const element of document.querySelectorAll("body *:not(.skip)")) {
    if (!element.checkVisibility() || element.closest(".scroll:not(.stacked), .stacked thead, .unseen, svg")) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > innerWidth + 0.5) found.push(`${element.tagName}.${element.className} ends at ${Math.round(box.right)} px`);
  }
  return found;
}

/** The element with the focus: its name, and whether an outline shows it. */
export function focused() {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return {
    tag: element.tagName, id: element.id, text: (element.getAttribute("aria-label") ?? element.textContent).trim().slice(0, 60),
    hasOutline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    isInDialog: element.closest("dialog") !== null,
  };
}

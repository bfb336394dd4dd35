// Plots as plain SVG: lines over a numeric or a named axis. A library would bring a browser's document for four pictures.

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface PlotOptions {
  readonly title: string;
  readonly xTitle: string;
  readonly yTitle: string;
  readonly lines: readonly Line[];
  /** Labels of the x values 0, 1, 2, ... Default: numbers. */
  readonly xLabels?: readonly string[];
  /** Powers of ten on the y axis instead of steps from 0. */
  readonly isLogarithmic?: boolean;
}

const [width, height] = [720, 360];
const margin = { left: 70, right: 20, top: 40, bottom: 80 };
const colors = ["#0b6bcb", "#c2410c", "#15803d", "#7c3aed"];

const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const short = (value: number): string => String(Number(value.toPrecision(3)));

/** Returns an SVG document of 720 by 360 pixels. */
export function plot({ title, xTitle, yTitle, lines, xLabels, isLogarithmic = false }: PlotOptions): string {
  const all = lines.flatMap(({ points }) => points);
  const [xMin, xMax] = [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))];
  const ys = all.map(([, y]) => y);
  const yTicks = isLogarithmic ? powers(Math.min(...ys), Math.max(...ys)) : steps(0, Math.max(...ys));
  const xTicks = xLabels ? xLabels.map((_, at) => at) : steps(xMin, xMax);
  const scale = isLogarithmic ? Math.log : (value: number) => value;
  const [low, high] = [scale(yTicks[0] as number), scale(yTicks.at(-1) as number)];
  const [first, last] = [Math.min(xMin, xTicks[0] as number), Math.max(xMax, xTicks.at(-1) as number)];
  const left = (x: number) =>
    short(margin.left + ((x - first) / (last - first || 1)) * (width - margin.left - margin.right));
  const top = (y: number) =>
    short(height - margin.bottom - ((scale(y) - low) / (high - low || 1)) * (height - margin.top - margin.bottom));
  const text = (x: number | string, y: number | string, value: string, more = "") =>
    `<text x="${x}" y="${y}" ${more}>${escaped(value)}</text>`;
  const parts = [
    text(margin.left, 22, title, 'font-weight="bold"'),
    text((margin.left + width - margin.right) / 2, height - 42, xTitle, 'text-anchor="middle"'),
    text(16, (height - 40) / 2, yTitle, `text-anchor="middle" transform="rotate(-90 16 ${(height - 40) / 2})"`),
  ];
  for (const y of yTicks)
    parts.push(
      `<path d="M${margin.left} ${top(y)}H${width - margin.right}" stroke="#ddd"/>`,
      text(margin.left - 6, Number(top(y)) + 4, short(y), 'text-anchor="end"'),
    );
  for (const x of xTicks)
    parts.push(text(left(x), height - margin.bottom + 18, xLabels?.[x] ?? short(x), 'text-anchor="middle"'));
  for (const [at, { name, points }] of lines.entries()) {
    const color = colors[at % colors.length];
    const path = points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${left(x)} ${top(y)}`).join("");
    parts.push(`<path d="${path}" fill="none" stroke="${color}" stroke-width="2"/>`);
    if (points.length <= 12)
      for (const [x, y] of points) parts.push(`<circle cx="${left(x)}" cy="${top(y)}" r="3" fill="${color}"/>`);
    const x = margin.left + at * 170;
    parts.push(
      `<path d="M${x} ${height - 18}h20" stroke="${color}" stroke-width="3"/>`,
      text(x + 26, height - 14, name),
    );
  }
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">
<title>${escaped(title)}</title>
<rect width="${width}" height="${height}" fill="white"/>
${parts.join("\n")}
</svg>
`;
}

/** From at most `min` to at least `max`, about five steps of 1, 2 or 5 times a power of ten. */
function steps(min: number, max: number): readonly number[] {
  const raw = (max - min || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= raw) ?? 10);
  const first = Math.floor(min / step);
  return Array.from({ length: Math.ceil(max / step) - first + 1 }, (_, at) => (first + at) * step);
}

function powers(min: number, max: number): readonly number[] {
  const first = Math.floor(Math.log10(min));
  return Array.from({ length: Math.ceil(Math.log10(max)) - first + 1 }, (_, at) => 10 ** (first + at));
}

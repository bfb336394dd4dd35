// Charts as SVG with text alternatives.
import { html, type View } from "../html.ts";

export interface Bar {
  readonly name: string;
  readonly value: number;
  readonly text: string;
}

const width = 600;
const height = 120;

export function Bars({ title, bars }: { title: string; bars: readonly Bar[] }): View {
  const max = Math.max(...bars.map(({ value }) => value), 0);
  const step = width / Math.max(bars.length, 1);
  return html`<svg class="chart" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${title} preserveAspectRatio="none">
    ${bars.map(({ name, value, text }, i) => {
      const barHeight = max > 0 ? (Math.max(value, 0) / max) * (height - 2) : 0;
      return html`<rect class="bar-of" x=${i * step + step * 0.1} y=${height - barHeight} width=${step * 0.8} height=${barHeight}>
        <title>${name}: ${text}</title></rect>`;
    })}
    <line class="axis" x1="0" y1=${height} x2=${width} y2=${height} />
  </svg>`;
}

export interface Line {
  readonly name: string;
  /** Null: no measurement, a gap in the line. */
  readonly values: readonly (number | null)[];
}

/** `first` and `last`: labels of the time axis. */
export function Lines(props: {
  title: string;
  lines: readonly Line[];
  first: string;
  last: string;
  show: (value: number) => string;
}): View {
  const { title, lines, first, last, show } = props;
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  if (known.length === 0) return html`<p class="quiet">${title}: no data in this period.</p>`;
  const max = Math.max(...known, 0) || 1;
  return html`<figure class="lines">
    <figcaption>${title} <span class="quiet">up to ${show(Math.max(...known))}</span></figcaption>
    <svg class="chart" viewBox=${`0 0 ${width} ${height}`} role="img" preserveAspectRatio="none"
      aria-label=${`${title}, from ${first} to ${last}, up to ${show(Math.max(...known))}`}>
      ${lines.map(
        ({ name, values }, i) =>
          html`<path class=${`line line-${i}`} d=${pathOf(values, max)}><title>${name}</title></path>`,
      )}
      <line class="axis" x1="0" y1=${height} x2=${width} y2=${height} />
    </svg>
    <p class="quiet ends"><span>${first}</span><span>${lines.map(({ name }, i) => html`<span class=${`key-${i}`}>${i === 0 ? "━" : "┅"} ${name} </span>`)}</span><span>${last}</span></p>
  </figure>`;
}

/** Half the length of the dash at the start of a line, which makes single values visible. */
const margin = 4;

function pathOf(values: readonly (number | null)[], max: number): string {
  const step = (width - 2 * margin) / Math.max(values.length - 1, 1);
  let isDrawing = false;
  return values
    .map((value, i) => {
      if (value === null) {
        isDrawing = false;
        return "";
      }
      const x = margin + i * step;
      const y = (height - 2 - (value / max) * (height - 4)).toFixed(1);
      const part = isDrawing ? `L${x.toFixed(1)} ${y}` : `M${(x - margin).toFixed(1)} ${y}H${(x + margin).toFixed(1)}`;
      isDrawing = true;
      return part;
    })
    .join("");
}

// Figures over time as a picture. Whoever cannot see it reads its title, and the figures themselves stand beside it.
import { html, type View } from "../html.ts";

export interface Bar {
  readonly name: string;
  readonly value: number;
  /** The value as people read it. */
  readonly text: string;
}

const width = 600;
const height = 120;

export function Bars({ title, bars }: { title: string; bars: readonly Bar[] }): View {
  const most = Math.max(...bars.map(({ value }) => value), 0);
  const step = width / Math.max(bars.length, 1);
  return html`<svg class="chart" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${title} preserveAspectRatio="none">
    ${bars.map(({ name, value, text }, i) => {
      const tall = most > 0 ? (Math.max(value, 0) / most) * (height - 2) : 0;
      return html`<rect class="bar-of" x=${i * step + step * 0.1} y=${height - tall} width=${step * 0.8} height=${tall}>
        <title>${name}: ${text}</title></rect>`;
    })}
    <line class="axis" x1="0" y1=${height} x2=${width} y2=${height} />
  </svg>`;
}

export interface Line {
  readonly name: string;
  /** Null: there was nothing to measure, and no line goes through it. */
  readonly values: readonly (number | null)[];
}

/** `first` and `last`: what stands at the two ends of time; `most`: the tallest value as people read it. */
export function Lines(props: {
  title: string;
  lines: readonly Line[];
  first: string;
  last: string;
  show: (value: number) => string;
}): View {
  const { title, lines, first, last, show } = props;
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  if (known.length === 0) return html`<p class="quiet">${title}: nothing in this time.</p>`;
  const most = Math.max(...known, 0) || 1;
  return html`<figure class="lines">
    <figcaption>${title} <span class="quiet">up to ${show(Math.max(...known))}</span></figcaption>
    <svg class="chart" viewBox=${`0 0 ${width} ${height}`} role="img" preserveAspectRatio="none"
      aria-label=${`${title}, from ${first} to ${last}, up to ${show(Math.max(...known))}`}>
      ${lines.map(
        ({ name, values }, i) =>
          html`<path class=${`line line-${i}`} d=${pathOf(values, most)}><title>${name}</title></path>`,
      )}
      <line class="axis" x1="0" y1=${height} x2=${width} y2=${height} />
    </svg>
    <p class="quiet ends"><span>${first}</span><span>${lines.map(({ name }, i) => html`<span class=${`key-${i}`}>${i === 0 ? "━" : "┅"} ${name} </span>`)}</span><span>${last}</span></p>
  </figure>`;
}

/** Half the dash that a value begins with, so that one with none on either side is seen. */
const margin = 4;

function pathOf(values: readonly (number | null)[], most: number): string {
  const step = (width - 2 * margin) / Math.max(values.length - 1, 1);
  let isOn = false;
  return values
    .map((value, i) => {
      if (value === null) {
        isOn = false;
        return "";
      }
      const x = margin + i * step;
      const y = (height - 2 - (value / most) * (height - 4)).toFixed(1);
      const part = isOn ? `L${x.toFixed(1)} ${y}` : `M${(x - margin).toFixed(1)} ${y}H${(x + margin).toFixed(1)}`;
      isOn = true;
      return part;
    })
    .join("");
}

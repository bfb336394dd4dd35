// Text of a user that reads like a control token must stay text. Before the template runs, such text is replaced by a mark
// that nobody can foresee; the rendered prompt is then cut at the marks, and what they stand for is tokenised as plain text.
import { randomBytes } from "node:crypto";
import { type PromptPart, promptTooLong } from "./prompt-bound.ts";

export class ControlTexts {
  readonly #texts: RegExp | undefined;
  readonly #contextLength: number;

  constructor(texts: readonly string[], contextLength = Number.POSITIVE_INFINITY) {
    this.#contextLength = contextLength;
    const forms = texts.filter((text) => text.length > 1).sort((a, b) => b.length - a.length);
    this.#texts = forms.length > 0 ? new RegExp(forms.map(RegExp.escape).join("|"), "g") : undefined;
  }

  /** Renders with every control text in any string of `values` hidden. Throws EngineRefusal("context_length"). */
  render<V>(values: V, render: (values: V) => string): readonly PromptPart[] {
    const found: string[] = [];
    const nonce = randomBytes(9).toString("hex");
    const mark = (text: string) => {
      // Each will be a token or more.
      if (found.length >= this.#contextLength) throw promptTooLong(this.#contextLength);
      return `stoker-control-${nonce}-${found.push(text) - 1}-`;
    };
    const hidden = this.#texts ? (hide(values, this.#texts, mark) as V) : values;
    const rendered = render(hidden);
    if (found.length === 0) return [{ text: rendered, hasControl: true }];
    return rendered
      .split(new RegExp(`stoker-control-${nonce}-(\\d+)-`))
      .map((text, i) =>
        i % 2 === 0 ? { text, hasControl: true } : { text: found[Number(text)] ?? "", hasControl: false },
      )
      .filter(({ text }) => text !== "");
  }
}

function hide(value: unknown, texts: RegExp, mark: (text: string) => string): unknown {
  if (typeof value === "string") return value.replace(texts, mark);
  if (Array.isArray(value)) return value.map((item) => hide(item, texts, mark));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, hide(item, texts, mark)]));
}

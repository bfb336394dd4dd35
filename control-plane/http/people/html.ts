// HTML templates that escape every value except other templates.
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Undefined and false render as nothing. */
export function html(parts: TemplateStringsArray, ...values: readonly (Html | string | undefined | false)[]): Html {
  return new Html(parts.map((part, i) => part + (i < values.length ? printed(values[i]) : "")).join(""));
}

function printed(value: Html | string | undefined | false): string {
  if (value instanceof Html) return value.text;
  return value ? value.replace(/[&<>"']/g, (letter) => entities[letter] as string) : "";
}

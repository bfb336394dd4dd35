import { html, type View } from "../html.ts";

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly onChoice: (value: string) => void;
}

/** Filter with a few values. */
export function Choice({ label, value, options, onChoice }: ChoiceProps): View {
  return html`<label>${label} <select value=${value}
    onChange=${(event: { currentTarget: HTMLSelectElement }) => onChoice(event.currentTarget.value)}>
    ${options.map(([of, text]) => html`<option value=${of}>${text}</option>`)}</select></label>`;
}

// Form with progress, error and success messages.
import { useState } from "preact/hooks";
import { html, type View } from "../html.ts";
import { Refused } from "./refused.ts";

interface FormProps {
  readonly act: string;
  /** Success message. Omitted if the page shows the result. */
  readonly done?: string;
  /** `fields` includes a named submit button. `form` also contains files. */
  readonly onSend: (fields: Readonly<Record<string, string>>, form: FormData) => Promise<unknown>;
  readonly children?: View;
}

export function Form({ act, done, onSend, children }: FormProps): View {
  const [state, setState] = useState<{ isBusy: boolean; isDone: boolean; error: unknown }>({
    isBusy: false,
    isDone: false,
    error: undefined,
  });
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (state.isBusy) return;
    const fields: Record<string, string> = {};
    const form = new FormData(event.currentTarget as HTMLFormElement, event.submitter);
    for (const [name, value] of form) fields[name] = typeof value === "string" ? value : "";
    setState({ isBusy: true, isDone: false, error: undefined });
    try {
      await onSend(fields, form);
      setState({ isBusy: false, isDone: true, error: undefined });
    } catch (error) {
      setState({ isBusy: false, isDone: false, error });
    }
  };
  return html`<form onSubmit=${send}>
    ${children}
    <p><button disabled=${state.isBusy}>${act}</button>
      ${state.isBusy && html`<span class="quiet" role="status"> Please wait…</span>`}
      ${state.isDone && done && html`<span class="done" role="status"> ✓ ${done}</span>`}</p>
    <${Refused} error=${state.error} />
  </form>`;
}

interface FieldProps extends Readonly<Record<string, unknown>> {
  readonly label: string;
  readonly name: string;
  readonly hint?: View;
  /** Initial value; with `onValue`, the current value. */
  readonly value?: string | number;
  /** Makes the field controlled: the page stores the value. */
  readonly onValue?: (value: string) => void;
}

export function Field({ label, name, hint, value, onValue, ...rest }: FieldProps): View {
  // `value` would overwrite the input on every render.
  const content =
    onValue === undefined
      ? { defaultValue: value }
      : { value, onInput: (event: { currentTarget: HTMLInputElement }) => onValue(event.currentTarget.value) };
  return html`<label>${label}<input name=${name} ...${rest} ...${content} />${hint && html`<small>${hint}</small>`}</label>`;
}

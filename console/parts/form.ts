// A form that does one thing: it shows that it is at it, why it was refused, and that it was done.
import { useState } from "preact/hooks";
import { html, type View } from "../html.ts";
import { Refused } from "./refused.ts";

interface FormProps {
  readonly act: string;
  /** What to say when it is done; nothing where the page shows it. */
  readonly done?: string;
  /** The button that was pressed is a field too, where it has a name. `form`: the same with the files that were chosen. */
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
      ${state.isBusy && html`<span class="quiet" role="status"> One moment…</span>`}
      ${state.isDone && done && html`<span class="done" role="status"> ✓ ${done}</span>`}</p>
    <${Refused} error=${state.error} />
  </form>`;
}

interface FieldProps extends Readonly<Record<string, unknown>> {
  readonly label: string;
  readonly name: string;
  readonly hint?: View;
  /** What stands in it before anybody types; with `onValue`, what stands in it at all times. */
  readonly value?: string | number;
  /** For a page that keeps what is typed itself, and hands it back as `value`. */
  readonly onValue?: (value: string) => void;
}

export function Field({ label, name, hint, value, onValue, ...rest }: FieldProps): View {
  // As `value` it would be written back whenever the page is drawn anew, over what somebody has typed since.
  const content =
    onValue === undefined
      ? { defaultValue: value }
      : { value, onInput: (event: { currentTarget: HTMLInputElement }) => onValue(event.currentTarget.value) };
  return html`<label>${label}<input name=${name} ...${rest} ...${content} />${hint && html`<small>${hint}</small>`}</label>`;
}

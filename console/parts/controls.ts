// Controls that pages consist of.
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api.ts";
import { agoText, inUtc } from "../format.ts";
import { html, type View } from "../html.ts";
import { signOf } from "../words.ts";

interface ActProps {
  readonly label: string;
  readonly sure?: string;
  readonly command?: string;
  readonly onAct: () => Promise<unknown>;
}

/** Button that runs an action and shows its error. */
export function Act({ label, sure, command, onAct }: ActProps): View {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const act = async () => {
    if (sure !== undefined && !confirm(sure)) return;
    setBusy(true);
    setError(undefined);
    await onAct().catch(setError);
    setBusy(false);
  };
  return html`<span class="act">
    <button type="button" class="second small" disabled=${isBusy} title=${command} onClick=${act}>${label}</button>
    ${command && html` <code class="command">${command}</code>`}
    <${Refused} error=${error} />
  </span>`;
}

/** Relative time, with the absolute time on hover. */
export function Ago({ at }: { at: number | string | null }): View {
  const [nowMs, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 10_000);
    return () => clearInterval(timer);
  }, []);
  if (at === null || at === "") return "never";
  const atMs = typeof at === "number" ? at * 1000 : Date.parse(at);
  if (Number.isNaN(atMs)) return String(at);
  return html`<time datetime=${new Date(atMs).toISOString()} title=${inUtc(atMs)}>${agoText(atMs, nowMs)}</time>`;
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly onChoice: (value: string) => void;
}

export function Choice({ label, value, options, onChoice }: ChoiceProps): View {
  return html`<label>${label} <select value=${value}
    onChange=${(event: { currentTarget: HTMLSelectElement }) => onChoice(event.currentTarget.value)}>
    ${options.map(([of, text]) => html`<option value=${of}>${text}</option>`)}</select></label>`;
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }): View {
  const [result, setResult] = useState("");
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setResult("Copied"),
      // Browsers block the clipboard without HTTPS.
      () => setResult("Select the text and copy it"),
    );
  return html`<button type="button" class="second small" onClick=${copy}>${result || label}</button>`;
}

export function Code({ text }: { text: string }): View {
  return html`<div class="code"><${Copy} text=${text} /><pre><code>${text}</code></pre></div>`;
}

/** Fields of a form by name. */
export type Fields = Readonly<Record<string, string>>;

interface FormProps {
  readonly act: string;
  /** Success message. Omitted if the page shows the result. */
  readonly done?: string;
  /** `fields` includes a named submit button. `form` also contains files. */
  readonly onSend: (fields: Fields, form: FormData) => Promise<unknown>;
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

/** Error message with the request id. */
export function Refused({ error }: { error: unknown }): View {
  if (error === undefined || error === null) return null;
  const message = error instanceof Error ? error.message : String(error);
  const requestId = error instanceof ApiError ? error.requestId : "";
  return html`<p class="refused" role="alert">✕ ${message}${requestId && html` <small>Request ${requestId}</small>`}</p>`;
}

export function Status({ of }: { of: string }): View {
  return html`<span class=${`status s${signOf(of).codePointAt(0)}`}><span aria-hidden="true">${signOf(of)}</span> ${of}</span>`;
}

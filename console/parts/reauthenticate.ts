import { useEffect, useRef } from "preact/hooks";
import { html, type View } from "../html.ts";
import { useVisitor } from "../visitor.ts";
import { type SessionAnswer, SignInForm } from "./sign-in-form.ts";

/** Dialog in which the user signs in again. */
export function Reauthenticate({ onEnd }: { onEnd: (isDone: boolean) => void }): View {
  const { me } = useVisitor();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  const entered = async ({ uid }: SessionAnswer) => {
    // Another account signed in: discard this page.
    if (uid !== me.uid) location.reload();
    else onEnd(true);
  };
  return html`<dialog ref=${dialog} aria-labelledby="reauthenticate" onCancel=${(event: Event) => {
    event.preventDefault();
    onEnd(false);
  }}>
    <h2 id="reauthenticate">Sign in again</h2>
    <p>To change keys, passwords or second factors, confirm that it is you. Your work on this page stays.</p>
    <${SignInForm} email=${me.email ?? undefined} onEntered=${entered} />
    <p><button type="button" class="second" onClick=${() => onEnd(false)}>Cancel</button></p>
  </dialog>`;
}

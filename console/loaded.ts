// What a page has asked for and where that stands: loading, there, stale or refused.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { agoInWords } from "./format.ts";
import { html, type View } from "./html.ts";
import { Refused } from "./parts/refused.ts";

export interface Loaded<Value> {
  readonly value: Value | undefined;
  /** Of the last attempt; a value from before it may still be there. */
  readonly error: unknown;
  readonly loadedAtMs: number;
  reload(): Promise<void>;
}

/**
 * Asks once, again whenever a member of `of` changes, and every `everyMs` while the page is looked at. An answer that comes
 * after a newer question is dropped.
 */
export function useLoaded<Value>(load: () => Promise<Value>, of: readonly unknown[], everyMs?: number): Loaded<Value> {
  const [state, setState] = useState<Omit<Loaded<Value>, "reload">>({
    value: undefined,
    error: undefined,
    loadedAtMs: 0,
  });
  const newest = useRef(0);
  const reload = useCallback(async (): Promise<void> => {
    newest.current += 1;
    const mine = newest.current;
    try {
      const value = await load();
      if (mine === newest.current) setState({ value, error: undefined, loadedAtMs: Date.now() });
    } catch (error) {
      if (mine === newest.current) setState((before) => ({ ...before, error }));
    }
  }, of);

  useEffect(() => {
    setState({ value: undefined, error: undefined, loadedAtMs: 0 });
    void reload();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const later = () => {
      timer = setTimeout(async () => {
        if (!document.hidden) await reload();
        later();
      }, everyMs);
    };
    if (everyMs !== undefined) later();
    return () => {
      newest.current += 1;
      clearTimeout(timer);
      // The answer under way belongs to nobody, and its timer must not begin again.
      everyMs = undefined;
    };
  }, [reload]);

  return { ...state, reload };
}

/** The value as `show` has it, or what stands in its place; with a word where it is older than it should be. */
export function shown<Value>(loaded: Loaded<Value>, show: (value: Value) => View): View {
  const { value, error, loadedAtMs } = loaded;
  if (value === undefined)
    return error === undefined
      ? html`<p class="quiet" role="status">Loading…</p>`
      : html`<${Refused} error=${error} /><p><button onClick=${loaded.reload}>Try again</button></p>`;
  return html`${
    error !== undefined &&
    html`<p class="stale" role="status">
      Stale: this was read ${agoInWords(loadedAtMs, Date.now())}. ${error instanceof Error ? error.message : ""}${" "}
      <button class="link" onClick=${loaded.reload}>Try again</button>
    </p>`
  }${show(value)}`;
}

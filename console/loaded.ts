// Data of a page: loading, loaded, stale or failed.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useApi } from "./api.ts";
import { agoText } from "./format.ts";
import { html, type View } from "./html.ts";
import { Refused } from "./parts/controls.ts";

export interface Loaded<Value> {
  readonly value: Value | undefined;
  /** Error of the last attempt. `value` may hold an older value. */
  readonly error: unknown;
  readonly loadedAtMs: number;
  reload(): Promise<void>;
  /** Waits for an action, then reloads. */
  after(act: Promise<unknown>): Promise<void>;
}

/**
 * Loads once, again when a member of `of` changes, and every `everyMs` while the page is visible. Drops responses to older
 * requests.
 */
export function useLoaded<Value>(load: () => Promise<Value>, of: readonly unknown[], everyMs?: number): Loaded<Value> {
  const [state, setState] = useState<Omit<Loaded<Value>, "reload" | "after">>({
    value: undefined,
    error: undefined,
    loadedAtMs: 0,
  });
  const newest = useRef(0);
  const reload = useCallback(async (): Promise<void> => {
    newest.current += 1;
    const own = newest.current;
    try {
      const value = await load();
      if (own === newest.current) setState({ value, error: undefined, loadedAtMs: Date.now() });
    } catch (error) {
      if (own === newest.current) setState((before) => ({ ...before, error }));
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
      // Ignore the pending response, and do not restart its timer.
      everyMs = undefined;
    };
  }, [reload]);

  const after = async (act: Promise<unknown>) => {
    await act;
    await reload();
  };
  return { ...state, reload, after };
}

/** Loads the response to GET `path`, see useLoaded. */
export function useGet<Value>(path: string, everyMs?: number): Loaded<Value> {
  const api = useApi();
  return useLoaded(() => api.call<Value>("GET", path), [api, path], everyMs);
}

/** Shows the value, its loading state or its error. Marks a stale value. */
export function shown<Value>(loaded: Loaded<Value>, show: (value: Value) => View): View {
  const { value, error, loadedAtMs } = loaded;
  if (value === undefined)
    return error === undefined
      ? html`<p class="quiet" role="status">Loading…</p>`
      : html`<${Refused} error=${error} /><p><button onClick=${loaded.reload}>Try again</button></p>`;
  return html`${
    error !== undefined &&
    html`<p class="stale" role="status">
      Stale: last updated ${agoText(loadedAtMs, Date.now())}. ${error instanceof Error ? error.message : ""}${" "}
      <button class="link" onClick=${loaded.reload}>Try again</button>
    </p>`
  }${show(value)}`;
}

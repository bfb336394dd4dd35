import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiContext, ApiError, createApi } from "./api.ts";
import { html, type View } from "./html.ts";
import { Layout } from "./layout.ts";
import { Enrol } from "./pages/security.ts";
import { SignIn, SignUp } from "./pages/sign-in.ts";
import { Refused } from "./parts/controls.ts";
import { Reauthenticate } from "./parts/reauthenticate.ts";
import type { SessionAnswer } from "./parts/sign-in-form.ts";
import { go, usePlace } from "./place.ts";
import { isSignUpOpen, type Me, VisitorContext } from "./visitor.ts";

type SessionState =
  | { readonly is: "loading" }
  | { readonly is: "unknown"; readonly error: unknown }
  | { readonly is: "out" }
  | { readonly is: "in"; readonly me: Me; readonly mustEnrol: boolean };

export function App(): View {
  const [session, setSession] = useState<SessionState>({ is: "loading" });
  const [newKey, setNewKey] = useState<string | undefined>(undefined);
  const [dialog, setDialog] = useState<{ readonly end: (isDone: boolean) => void } | undefined>(undefined);
  const { path, query } = usePlace();
  // Remove everything that was shown to the previous user.
  const leave = () => {
    setNewKey(undefined);
    closeDialog(false);
    setSession({ is: "out" });
  };
  const closeDialog = (isDone: boolean) =>
    setDialog((open) => {
      open?.end(isDone);
      return undefined;
    });
  const reauthenticate = () => new Promise<boolean>((end) => setDialog({ end }));
  const onMustEnrol = () => void enter();
  const api = useMemo(() => createApi({ onSignedOut: leave, reauthenticate, onMustEnrol }), []);

  const enter = async (): Promise<void> => {
    try {
      const { must_enrol: mustEnrol } = await api.openSession();
      setSession({ is: "in", me: await api.call<Me>("GET", "/v1/me"), mustEnrol });
    } catch (error) {
      const isOut = error instanceof ApiError && error.status === 401;
      if (isOut) leave();
      else setSession({ is: "unknown", error });
    }
  };
  useEffect(() => void enter(), []);

  if (session.is === "loading") return html`<main><p class="quiet" role="status">Loading…</p></main>`;
  if (session.is === "unknown")
    return html`<main><${Refused} error=${session.error} /><button onClick=${enter}>Try again</button></main>`;
  if (session.is === "out") {
    const signedUp = async (key: string) => {
      setNewKey(key);
      await enter();
      go("/");
    };
    const page =
      path === "/sign-up" && isSignUpOpen()
        ? html`<${SignUp} onKey=${signedUp} />`
        : html`<${SignIn} onEntered=${async ({ must_enrol: mustEnrol }: SessionAnswer) => {
            if (!mustEnrol && returnToCli(query)) return;
            await enter();
            if (path === "/sign-up" || path === "/sign-in") go(query.has("cli") ? `/security?${query}` : "/");
          }} />`;
    return html`<${ApiContext.Provider} value=${api}><main class="narrow">${page}</main><//>`;
  }
  const signOut = async () => {
    await api.call("POST", "/v1/auth/sign-out");
    leave();
    go("/sign-in");
  };
  const visitor = { me: session.me, newKey, setNewKey, signOut };
  const enrolled = () => void (returnToCli(query) || enter());
  const page = session.mustEnrol
    ? html`<main class="narrow"><${Enrol} onDone=${enrolled} onSignOut=${signOut} /></main>`
    : html`<${Layout} />`;
  return html`<${ApiContext.Provider} value=${api}><${VisitorContext.Provider} value=${visitor}>${page}
    ${dialog && html`<${Reauthenticate} onEnd=${closeDialog} />`}<//><//>`;
}

/** Returns to the page where a CLI login waits for approval. False if there is none. */
function returnToCli(query: URLSearchParams): boolean {
  const id = query.get("cli") ?? "";
  if (!/^[\w-]{32}$/.test(id)) return false;
  location.assign(`/login?cli=${id}`);
  return true;
}

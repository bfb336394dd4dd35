import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiContext, ApiError, createApi } from "./api.ts";
import { html, type View } from "./html.ts";
import { Layout } from "./layout.ts";
import { SignIn } from "./pages/sign-in.ts";
import { SignUp } from "./pages/sign-up.ts";
import { Refused } from "./parts/refused.ts";
import { go, usePlace } from "./place.ts";
import { isSignUpOpen, type Me, VisitorContext } from "./visitor.ts";

type Standing =
  | { readonly is: "asking" }
  | { readonly is: "unknown"; readonly error: unknown }
  | { readonly is: "out" }
  | { readonly is: "in"; readonly me: Me };

export function App(): View {
  const [standing, setStanding] = useState<Standing>({ is: "asking" });
  const [newKey, setNewKey] = useState<string | undefined>(undefined);
  const { path } = usePlace();
  // Nothing that was shown to one person is there for the next.
  const leave = () => {
    setNewKey(undefined);
    setStanding({ is: "out" });
  };
  const api = useMemo(() => createApi(leave), []);

  const enter = async (): Promise<void> => {
    try {
      await api.openSession();
      setStanding({ is: "in", me: await api.call<Me>("GET", "/v1/me") });
    } catch (error) {
      const isOut = error instanceof ApiError && error.status === 401;
      if (isOut) leave();
      else setStanding({ is: "unknown", error });
    }
  };
  useEffect(() => void enter(), []);

  if (standing.is === "asking") return html`<main><p class="quiet" role="status">Loading…</p></main>`;
  if (standing.is === "unknown")
    return html`<main><${Refused} error=${standing.error} /><button onClick=${enter}>Try again</button></main>`;
  if (standing.is === "out") {
    const signedUp = async (key: string) => {
      setNewKey(key);
      await enter();
      go("/");
    };
    const page =
      path === "/sign-up" && isSignUpOpen()
        ? html`<${SignUp} onKey=${signedUp} />`
        : html`<${SignIn} onEntered=${async () => {
            await enter();
            if (path === "/sign-up" || path === "/sign-in") go("/");
          }} />`;
    return html`<${ApiContext.Provider} value=${api}><main class="narrow">${page}</main><//>`;
  }
  const visitor = {
    me: standing.me,
    newKey,
    setNewKey,
    signOut: async () => {
      await api.call("POST", "/v1/auth/sign-out");
      leave();
      go("/sign-in");
    },
  };
  return html`<${ApiContext.Provider} value=${api}><${VisitorContext.Provider} value=${visitor}><${Layout} /><//><//>`;
}

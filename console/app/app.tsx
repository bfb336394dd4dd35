// Who is signed in decides what is shown: sign-in pages, the set-up of a required second factor, or the console.
import { Button, Center, Loader, Stack } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useEffect, useMemo, useState } from "react";
import { actingAs, setActingAs } from "../api/acting.ts";
import { ApiError, createApi } from "../api/client.ts";
import { ApiContext } from "../api/context.ts";
import { text } from "../text/common.ts";
import { ErrorNotice } from "../ui/notice.tsx";
import { base } from "./base.ts";
import { Reauthenticate } from "./reauthenticate.tsx";
import type { SessionAnswer } from "./sign-in-form.tsx";
import { SignedOut } from "./signed-out.tsx";
import { isSignUpOpen, type Me, VisitorContext } from "./visitor.ts";

const Console = lazy(async () => {
  const { router } = await import("./router.tsx");
  return { default: () => <RouterProvider router={router} /> };
});
const Enrol = lazy(async () => ({ default: (await import("../pages/account/enrol.tsx")).Enrol }));

type SessionState =
  | { readonly is: "loading" }
  | { readonly is: "unknown"; readonly error: unknown }
  | { readonly is: "out" }
  | { readonly is: "in"; readonly me: Me; readonly operator: Me | undefined; readonly mustEnrol: boolean };

export function App(): ReactNode {
  const queries = useQueryClient();
  const [session, setSession] = useState<SessionState>({ is: "loading" });
  const [newKey, setNewKey] = useState<string | undefined>(undefined);
  const [dialog, setDialog] = useState<{ readonly end: (isDone: boolean) => void } | undefined>(undefined);
  const closeDialog = (isDone: boolean) =>
    setDialog((open) => {
      open?.end(isDone);
      return undefined;
    });
  // Remove everything that was shown to the previous user.
  const leave = () => {
    setNewKey(undefined);
    setActingAs(undefined);
    closeDialog(false);
    queries.clear();
    setSession({ is: "out" });
  };
  const reauthenticate = () => new Promise<boolean>((end) => setDialog({ end }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: one client for the life of the page.
  const api = useMemo(
    () => createApi({ onSignedOut: leave, reauthenticate, onMustEnrol: () => void enter(), actingAs }),
    [],
  );

  /** The signed-in account and, for an operator who views another, that one. */
  const shownAccounts = async (mustEnrol: boolean): Promise<{ me: Me; operator: Me | undefined }> => {
    const viewed = mustEnrol ? undefined : actingAs();
    setActingAs(undefined);
    const own = await api.call<Me>("GET", "/v1/me");
    if (viewed === undefined || !own.is_admin) return { me: own, operator: undefined };
    setActingAs(viewed);
    try {
      return { me: await api.call<Me>("GET", "/v1/me"), operator: own };
    } catch (error) {
      setActingAs(undefined);
      if (error instanceof ApiError && error.status === 404) return { me: own, operator: undefined };
      throw error;
    }
  };

  const enter = async (): Promise<void> => {
    try {
      const { must_enrol: mustEnrol } = await api.openSession();
      setSession({ is: "in", ...(await shownAccounts(mustEnrol)), mustEnrol });
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) leave();
      else setSession({ is: "unknown", error });
    }
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: once.
  useEffect(() => void enter(), []);

  if (session.is === "loading") return <Waiting />;
  if (session.is === "unknown")
    return (
      <Stack p="lg" maw={480}>
        <ErrorNotice error={session.error} />
        <div>
          <Button onClick={() => void enter()}>{text.tryAgain}</Button>
        </div>
      </Stack>
    );
  if (session.is === "out") {
    const entered = async ({ must_enrol: mustEnrol }: SessionAnswer) => {
      if (!mustEnrol && returnToCli()) return;
      if (isEntrance(location.pathname)) {
        const cli = new URLSearchParams(location.search).has("cli");
        history.replaceState(null, "", cli ? `${base}/security${location.search}` : base);
      }
      await enter();
    };
    const signedUp = async (key: string) => {
      setNewKey(key);
      history.replaceState(null, "", base);
      await enter();
    };
    return (
      <ApiContext.Provider value={api}>
        <SignedOut isSignUpOpen={isSignUpOpen()} onEntered={entered} onKey={signedUp} />
      </ApiContext.Provider>
    );
  }
  const signOut = async () => {
    await api.call("POST", "/v1/auth/sign-out");
    history.replaceState(null, "", `${base}/sign-in`);
    leave();
  };
  const { me, operator, mustEnrol } = session;
  const show = (accounts: Pick<typeof session, "me" | "operator">) => {
    setNewKey(undefined);
    queries.clear();
    setSession({ ...session, ...accounts });
  };
  const viewAccount = async (uid: string) => {
    const customer = await api.call<Me>("GET", "/v1/me", undefined, { "x-stoker-act-as": uid });
    setActingAs(uid);
    show({ me: customer, operator: operator ?? me });
  };
  const endView = () => {
    setActingAs(undefined);
    show({ me: operator ?? me, operator: undefined });
  };
  return (
    <ApiContext.Provider value={api}>
      <VisitorContext.Provider
        value={{
          me,
          operator,
          isReauthenticating: dialog !== undefined,
          newKey,
          setNewKey,
          signOut,
          viewAccount,
          endView,
        }}
      >
        <Suspense fallback={<Waiting />}>
          {mustEnrol ? <Enrol onDone={() => void (returnToCli() || enter())} /> : <Console key={me.uid} />}
        </Suspense>
        {dialog && <Reauthenticate onEnd={closeDialog} />}
      </VisitorContext.Provider>
    </ApiContext.Provider>
  );
}

const isEntrance = (path: string): boolean => /\/sign-(in|up)\/?$/.test(path);

function Waiting(): ReactNode {
  return (
    <Center h="100vh" role="status" aria-label={text.loading}>
      <Loader type="dots" />
    </Center>
  );
}

/** Returns to the page where a CLI login waits for approval. False if there is none. */
function returnToCli(): boolean {
  const id = new URLSearchParams(location.search).get("cli") ?? "";
  if (!/^[\w-]{32}$/.test(id)) return false;
  location.assign(`/login?cli=${id}`);
  return true;
}

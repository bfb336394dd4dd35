// Who is signed in decides what is shown: sign-in pages, the set-up of a required second factor, or the console.
import { Button, Center, Loader, Stack } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useEffect, useMemo, useState } from "react";
import type { Responses } from "../../proto/gen/responses.ts";
import { actingAs, chooseOrganization, chosenOrganization, setActingAs } from "../api/acting.ts";
import { ApiError, createApi } from "../api/client.ts";
import { ApiContext } from "../api/context.ts";
import { afterEntrance, isEntrance } from "../domain/entrance.ts";
import { text } from "../text/common.ts";
import { ErrorNotice } from "../ui/notice.tsx";
import { base } from "./base.ts";
import type { SessionAnswer } from "./sign-in-form.tsx";
import { isSignUpOpen, type Me, type Permissions, VisitorContext } from "./visitor.ts";

const Console = lazy(async () => {
  const { router } = await import("./router.tsx");
  return { default: () => <RouterProvider router={router} /> };
});
const SignedOut = lazy(async () => ({ default: (await import("./signed-out.tsx")).SignedOut }));
const Reauthenticate = lazy(async () => ({ default: (await import("./reauthenticate.tsx")).Reauthenticate }));
const Enrol = lazy(async () => ({ default: (await import("../pages/account/enrol.tsx")).Enrol }));

type SessionState =
  | { readonly is: "loading" }
  | { readonly is: "unknown"; readonly error: unknown }
  | { readonly is: "out" }
  | ({ readonly is: "in"; readonly mustEnrol: boolean } & Shown);

/** The account that is shown, and whose it is if not the user's own. */
interface Shown {
  readonly me: Me;
  readonly operator: Me | undefined;
  readonly person: Me | undefined;
  readonly permissions: Permissions | undefined;
}

type Organizations = Responses["GET /v1/organizations"];

/** Undefined for an account that no longer exists; throws any other error. */
function ifGone(error: unknown): undefined {
  if (!(error instanceof ApiError) || ![403, 404].includes(error.status)) throw error;
}

const ownAccount = (me: Me): Shown => ({ me, operator: undefined, person: undefined, permissions: undefined });

interface Reauthentication {
  /** The request that needs it. */
  readonly method: string;
  readonly path: string;
  readonly end: (isDone: boolean) => void;
}

export function App(): ReactNode {
  const queries = useQueryClient();
  const [session, setSession] = useState<SessionState>({ is: "loading" });
  const [newKey, setNewKey] = useState<string | undefined>(undefined);
  const [dialog, setDialog] = useState<Reauthentication | undefined>(undefined);
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
  const reauthenticate = (method: string, path: string) =>
    new Promise<boolean>((end) => setDialog({ method, path, end }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: one client for the life of the page.
  const api = useMemo(
    () => createApi({ onSignedOut: leave, reauthenticate, onMustEnrol: () => void enter(), actingAs }),
    [],
  );

  /** The account `uid`: an organization of the person, or one that an operator views. Undefined: neither. Throws ApiError. */
  const otherAccount = async (own: Me, uid: string): Promise<Shown | undefined> => {
    const headers = { "x-stoker-act-as": uid };
    const read = <Answer,>(path: string) => api.call<Answer>("GET", path, undefined, headers);
    const { organizations } = await api.call<Organizations>("GET", "/v1/organizations");
    if (organizations.some((one) => one.uid === uid)) {
      const [me, permissions] = await Promise.all([read<Me>("/v1/me"), read<Permissions>("/v1/permissions")]);
      return { me, permissions, person: own, operator: undefined };
    }
    return own.is_admin ? { ...ownAccount(await read<Me>("/v1/me")), operator: own } : undefined;
  };

  const shownAccounts = async (mustEnrol: boolean): Promise<Shown> => {
    const other = mustEnrol ? undefined : (actingAs() ?? chosenOrganization());
    setActingAs(undefined);
    const own = await api.call<Me>("GET", "/v1/me");
    const shown = other === undefined ? undefined : await otherAccount(own, other).catch(ifGone);
    // The person left the organization, or the account was deleted.
    if (shown) setActingAs(other);
    else chooseOrganization(undefined);
    return shown ?? ownAccount(own);
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
      if (isEntrance(location.pathname)) history.replaceState(null, "", afterEntrance(location.search, base));
      await enter();
    };
    const signedUp = async (key: string) => {
      setNewKey(key);
      history.replaceState(null, "", afterEntrance(location.search, base));
      await enter();
    };
    return (
      <ApiContext.Provider value={api}>
        <Suspense fallback={<Waiting />}>
          <SignedOut isSignUpOpen={isSignUpOpen()} onEntered={entered} onKey={signedUp} />
        </Suspense>
      </ApiContext.Provider>
    );
  }
  const signOut = async () => {
    await api.call("POST", "/v1/auth/sign-out");
    history.replaceState(null, "", `${base}/sign-in`);
    leave();
  };
  const { me, operator, person, permissions, mustEnrol } = session;
  const own = operator ?? person ?? me;
  const show = (accounts: Shown) => {
    setNewKey(undefined);
    queries.clear();
    setSession({ ...session, ...accounts });
  };
  const noteView = (uid: string, state: "begin" | "end") =>
    api.call("POST", `/v1/admin/accounts/${encodeURIComponent(uid)}/views`, { state });
  const viewAccount = async (uid: string) => {
    const shown = await otherAccount(own, uid);
    await noteView(uid, "begin");
    setActingAs(uid);
    if (shown) show(shown);
  };
  const endView = () => {
    setActingAs(undefined);
    show(ownAccount(own));
    // The view ends whether or not the server can record it.
    if (operator) noteView(me.uid, "end").catch(() => {});
  };
  const switchTo = async (uid: string | undefined) => {
    const shown = uid === undefined ? undefined : await otherAccount(own, uid);
    chooseOrganization(shown && uid);
    show(shown ?? ownAccount(own));
  };
  return (
    <ApiContext.Provider value={api}>
      <VisitorContext.Provider
        value={{
          me,
          operator,
          person,
          permissions,
          switchTo,
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
        {dialog && (
          <Suspense>
            <Reauthenticate method={dialog.method} path={dialog.path} onEnd={closeDialog} />
          </Suspense>
        )}
      </VisitorContext.Provider>
    </ApiContext.Provider>
  );
}

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

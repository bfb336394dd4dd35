// The signed-in user and settings of the installation.
import { createContext, useContext } from "react";
import type { Responses } from "../../proto/gen/responses.ts";

export type Me = Responses["GET /v1/me"];

export interface Visitor {
  /** The account that is shown. */
  readonly me: Me;
  /** Set while `me` is a customer's account, which the signed-in operator views and cannot change. */
  readonly operator: Me | undefined;
  /** The dialog in which the user signs in again is open. */
  readonly isReauthenticating: boolean;
  /** Kept in memory until the page is closed, because the server shows a key only once. */
  readonly newKey: string | undefined;
  setNewKey(key: string): void;
  signOut(): Promise<void>;
  /** Views this account, with the menu and pages of its owner. Throws ApiError. */
  viewAccount(uid: string): Promise<void>;
  endView(): void;
}

export const VisitorContext = createContext<Visitor | undefined>(undefined);

export function useVisitor(): Visitor {
  const visitor = useContext(VisitorContext);
  if (!visitor) throw new Error("useVisitor called outside VisitorContext");
  return visitor;
}

/** Whether nothing on the page may be changed. */
export const useIsReadOnly = (): boolean => useContext(VisitorContext)?.operator !== undefined;

const metaOf = (name: string): string =>
  document.querySelector<HTMLMetaElement>(`meta[name="stoker-${name}"]`)?.content ?? "";

/** URL of this server for clients, without a trailing slash. */
export const serverUrl = (): string => (metaOf("url") || location.origin).replace(/\/+$/, "");

export const isSignUpOpen = (): boolean => metaOf("sign-up") === "open";

/** Nonce of this page for style elements that scripts add. */
export const styleNonce = (): string => document.querySelector<HTMLElement>('meta[property="csp-nonce"]')?.nonce ?? "";

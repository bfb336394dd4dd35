// The signed-in user and settings of the installation.
import { createContext, useContext } from "react";
import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/common.ts";

export type Me = Responses["GET /v1/me"];

export type Permissions = Responses["GET /v1/permissions"];
export type Right = Permissions["rights"][number];

export interface Visitor {
  /** The account that is shown. */
  readonly me: Me;
  /** Set while `me` is a customer's account, which the signed-in operator views and cannot change. */
  readonly operator: Me | undefined;
  /** Set while `me` is an organization in which the signed-in person, who is this account, acts. */
  readonly person: Me | undefined;
  /** Rights in the account that is shown. Undefined: all, of one's own account. */
  readonly permissions: Permissions | undefined;
  /** Shows an organization of the person; undefined: their own account. Throws ApiError. */
  switchTo(organization: string | undefined): Promise<void>;
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

/** Right that the buttons of a page need, unless they name another one. */
export const ChangeRight = createContext<Right>("change");

/** Why nothing may be changed that needs this right, by default that of the page; undefined: it may. */
export function useBarred(needs?: Right): string | undefined {
  const visitor = useContext(VisitorContext);
  const usual = useContext(ChangeRight);
  if (visitor?.operator) return text.readOnly;
  return visitor && !mayDo(visitor, needs ?? usual)
    ? text.notYourRole(visitor.permissions?.member_role ?? "")
    : undefined;
}

/** True if the person has the right in the account that is shown. */
export const mayDo = ({ permissions }: Pick<Visitor, "permissions">, right: Right): boolean =>
  permissions === undefined || permissions.rights.includes(right);

const metaOf = (name: string): string =>
  document.querySelector<HTMLMetaElement>(`meta[name="stoker-${name}"]`)?.content ?? "";

/** URL of this server for clients, without a trailing slash. */
export const serverUrl = (): string => (metaOf("url") || location.origin).replace(/\/+$/, "");

export const isSignUpOpen = (): boolean => metaOf("sign-up") === "open";

/** Nonce of this page for style elements that scripts add. */
export const styleNonce = (): string => document.querySelector<HTMLElement>('meta[property="csp-nonce"]')?.nonce ?? "";

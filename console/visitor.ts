// Who looks at the console, and what this installation is.
import { createContext } from "preact";
import { useContext } from "preact/hooks";

export interface Me {
  readonly uid: string;
  readonly email: string | null;
  readonly display_name: string;
  readonly is_admin: boolean;
}

export interface Visitor {
  readonly me: Me;
  /** In memory alone, until the page is left: the server shows a key once. */
  readonly newKey: string | undefined;
  setNewKey(key: string): void;
  signOut(): Promise<void>;
}

export const VisitorContext = createContext<Visitor | undefined>(undefined);

export function useVisitor(): Visitor {
  const visitor = useContext(VisitorContext);
  if (!visitor) throw new Error("a page stands outside the console");
  return visitor;
}

const said = (name: string): string =>
  document.querySelector<HTMLMetaElement>(`meta[name="stoker-${name}"]`)?.content ?? "";

/** Under which clients reach this server, without a slash at its end. */
export const serverUrl = (): string => (said("url") || location.origin).replace(/\/+$/, "");

export const isSignUpOpen = (): boolean => said("sign-up") === "open";

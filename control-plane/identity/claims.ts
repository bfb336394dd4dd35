// Claims of an ID token or of the userinfo endpoint, which a provider chooses: everything is checked and bounded. Pure.

import { domainNotListed, emailUnverified } from "./errors.ts";
import { domainOf } from "./providers.ts";
import type { ProviderRow } from "./store.ts";

export type Claims = Readonly<Record<string, unknown>>;

const maxSubject = 255;
const maxGroups = 500;
const maxGroupName = 256;
const emailForm = /^[^@\s\0]+@[^@\s\0]+$/;

/** Undefined when the provider sends none that can be stored. */
export function subjectOf({ sub }: Claims): string | undefined {
  return typeof sub === "string" && sub !== "" && sub.length <= maxSubject && !sub.includes("\0") ? sub : undefined;
}

/** Unix ms at which the person signed in at the provider; 0: it does not report it. */
export function authTimeMsOf({ auth_time: seconds }: Claims): number {
  return typeof seconds === "number" && seconds > 0 && seconds < 1e11 ? Math.floor(seconds * 1000) : 0;
}

/** Returns the address that the provider vouches for. Throws emailUnverified, domainNotListed. */
export function provenEmail(provider: ProviderRow, { email, email_verified: isVerified }: Claims): string {
  if (typeof email !== "string" || email.length > 320 || !emailForm.test(email)) throw emailUnverified(provider.name);
  // Entra ID sends no email_verified; a provider that says false is believed.
  const isProven = isVerified === undefined ? provider.trustsEmail : isVerified === true || isVerified === "true";
  if (!isProven) throw emailUnverified(provider.name);
  if (!provider.domains.includes(domainOf(email))) throw domainNotListed(provider.name);
  return email;
}

/** The same; empty where that throws. */
export function provenEmailOrNone(provider: ProviderRow, claims: Claims): string {
  try {
    return provenEmail(provider, claims);
  } catch {
    return "";
  }
}

/** Groups of the claim: a list of names, or one. A missing claim counts as none, so that nobody keeps a role by it. */
export function groupsOf(claims: Claims, claim: string): readonly string[] {
  const value = claims[claim];
  const list = Array.isArray(value) ? value : [value];
  const names = list.filter(
    (name): name is string =>
      typeof name === "string" && name !== "" && name.length <= maxGroupName && !name.includes("\0"),
  );
  return [...new Set(names)].slice(0, maxGroups);
}

/** Suggestions for the display name of a new account: 1 to 39 letters and digits with single hyphens between them. */
export function displayNameOf({ preferred_username: user, name }: Claims, email: string): string {
  const candidates = [user, email, name].filter((one) => typeof one === "string");
  for (const text of candidates) {
    const plain =
      text
        .split("@")[0]
        ?.normalize("NFKD")
        .replace(/[^a-zA-Z0-9]+/g, "-") ?? "";
    const short = plain.replace(/^-+/, "").slice(0, 32).replace(/-+$/, "");
    if (short !== "") return short;
  }
  return "person";
}

// The account that is shown instead of the user's own. Each tab of the browser has its own; a new tab opens the organization that was
// chosen last.
const key = "stoker-acting-as";
const chosenKey = "stoker-organization";

/** uid; undefined: the user's own account. */
export const actingAs = (): string | undefined => sessionStorage.getItem(key) ?? undefined;

export function setActingAs(uid: string | undefined): void {
  if (uid === undefined) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, uid);
}

/** uid of the organization that this browser showed last. */
export const chosenOrganization = (): string | undefined => localStorage.getItem(chosenKey) ?? undefined;

export function chooseOrganization(uid: string | undefined): void {
  setActingAs(uid);
  if (uid === undefined) localStorage.removeItem(chosenKey);
  else localStorage.setItem(chosenKey, uid);
}

/** Headers of requests that do not go through the client of the API. */
export function actingHeaders(): Record<string, string> {
  const uid = actingAs();
  return uid === undefined ? {} : { "x-stoker-act-as": uid };
}

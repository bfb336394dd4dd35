// The account that an operator views instead of their own. Each tab of the browser has its own.
const key = "stoker-acting-as";

/** uid; undefined: the user's own account. */
export const actingAs = (): string | undefined => sessionStorage.getItem(key) ?? undefined;

export function setActingAs(uid: string | undefined): void {
  if (uid === undefined) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, uid);
}

/** Headers of requests that do not go through the client of the API. The server refuses those that change or run something. */
export function actingHeaders(): Record<string, string> {
  const uid = actingAs();
  return uid === undefined ? {} : { "x-stoker-act-as": uid };
}

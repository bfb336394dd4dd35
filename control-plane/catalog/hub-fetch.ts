// GET requests to the operator's hub. Each redirect is checked before it is followed, and gets the token only on the hub's own
// origin.
import { Agent, type Dispatcher, fetch, type Response } from "undici";
import { guardedLookup, type Reach, reachOf, refuseBeyond } from "../../proto/redirect-reach.ts";

const limitMs = 5_000;
const maxRedirects = 5;

const through: Readonly<Record<Reach, Dispatcher>> = {
  outside: new Agent({ connect: { lookup: guardedLookup("outside") } }),
  notHere: new Agent({ connect: { lookup: guardedLookup("notHere") } }),
};

/** Rejects after 5 s, for a redirect to an address that is not allowed, and with fetch's own errors. Any status resolves. */
export async function hubFetch(address: string, headers: Readonly<Record<string, string>>): Promise<Response> {
  const first = new URL(address);
  const signal = AbortSignal.timeout(limitMs);
  const { authorization, ...others } = headers;
  let url = first;
  for (let hops = 0; hops <= maxRedirects; hops++) {
    const reach = hops === 0 ? undefined : await reachOf(first, url);
    if (reach) refuseBeyond(reach, url);
    const token = authorization !== undefined && url.origin === first.origin ? { authorization } : {};
    const answer = await fetch(url, {
      headers: { ...others, ...token },
      redirect: "manual",
      signal,
      ...(reach ? { dispatcher: through[reach] } : {}),
    });
    const location = answer.status >= 300 && answer.status < 400 ? answer.headers.get("location") : null;
    if (location === null) return answer;
    await answer.body?.cancel();
    const next = new URL(location, url);
    if (!/^https?:$/.test(next.protocol) || (url.protocol === "https:" && next.protocol === "http:"))
      throw new Error(`${url.host} redirects to ${next.protocol}, which is not followed`);
    url = next;
  }
  throw new Error(`${first.host} redirects more than ${maxRedirects} times`);
}

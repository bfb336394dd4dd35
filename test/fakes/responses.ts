// The responses feature over a store in memory. Nothing runs in the background: test/integration/responses does that.
import { createResponses, type ResponseSeal } from "../../control-plane/responses/responses.ts";
import type { NewResponse } from "../../control-plane/responses/store.ts";

/** Encrypts nothing. */
const plainSeal: ResponseSeal = {
  seal: async (_account, _id, plain) => plain,
  open: async (_account, _id, sealed) => sealed,
};

export function fakeResponses() {
  const rows = new Map<string, NewResponse>();
  const own = (account: string, id: string | undefined) => {
    const row = rows.get(id ?? "");
    return row?.account === account ? row : undefined;
  };
  const shown = ({ id, status, background, sealed }: NewResponse) => ({ id, status, background, sealed });
  const sized = ({ id, status, sealed }: NewResponse) => ({ id, status, bytes: sealed.length });
  return {
    ...createResponses({
      store: {
        add: async (response) => {
          rows.set(response.id, response);
          return "added";
        },
        storedBytes: async () => 0,
        find: async (account, ids) => ids.flatMap((id) => own(account, id) ?? []).map(shown),
        sizes: async (account, ids) => ids.flatMap((id) => own(account, id) ?? []).map(sized),
        chain: async (account, id) => {
          const chain: NewResponse[] = [];
          for (let next: string | undefined = id; next !== undefined; next = chain[0]?.previous) {
            const row = own(account, next);
            if (!row) return undefined;
            chain.unshift(row);
          }
          return chain.map(sized);
        },
        remove: async (account, id) => own(account, id) !== undefined && rows.delete(id),
        cancel: async (account, id) => {
          const row = own(account, id);
          if (row) rows.set(id, { ...row, status: "cancelled" });
        },
      },
      seal: plainSeal,
      onQueued: () => {},
      onEnded: () => {},
    }),
    runWith: () => {},
  };
}

import { useQuery } from "@tanstack/react-query";
import { actingHeaders } from "../../api/acting.ts";
import { refusalOf } from "../../api/client.ts";
import type { Query } from "../../api/hooks.ts";

export const contentOf = (id: string): string => `/v1/files/${encodeURIComponent(id)}/content`;

const headCharacters = 64 * 1024;

/** Beginning of a file. The rest of a large one is not loaded. Empty id: none. */
export const useFileHead = (id: string): Query<string> =>
  useQuery<string>({
    queryKey: [contentOf(id), "head"],
    queryFn: async ({ signal }) => {
      const answer = await fetch(contentOf(id), { headers: actingHeaders(), signal });
      if (!answer.ok || !answer.body) throw await refusalOf(answer);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let found = "";
      while (found.length < headCharacters) {
        const { done, value } = await reader.read();
        if (done) break;
        found += value;
      }
      await reader.cancel();
      return found;
    },
    enabled: id !== "",
    staleTime: Number.POSITIVE_INFINITY,
  });

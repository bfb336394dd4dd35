// Reading and changing through the API, with TanStack Query as the cache of all pages.
import { type UseQueryResult, useInfiniteQuery, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useApi } from "./context.ts";

export type Query<Value> = Pick<UseQueryResult<Value>, "data" | "error" | "dataUpdatedAt" | "refetch" | "isFetching">;

interface GetOptions {
  /** Asked again after so many milliseconds while the page is visible. */
  readonly everyMs?: number | undefined;
  /** False: not asked. */
  readonly enabled?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Loads GET `path`. Pages that name the same path share one request. */
export function useGet<Value>(path: string, { everyMs, enabled = true, headers }: GetOptions = {}): Query<Value> {
  const api = useApi();
  return useQuery<Value>({
    queryKey: headers ? [path, headers] : [path],
    queryFn: () => api.call<Value>("GET", path, undefined, headers),
    enabled,
    ...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
  });
}

interface PagesOptions<Page> extends Pick<GetOptions, "everyMs" | "headers"> {
  /** Name and value of the parameter that asks for the next page; undefined on the last. */
  readonly next?: (page: Page) => readonly [name: string, value: string] | undefined;
}

const byCursor = (page: unknown): readonly [string, string] | undefined => {
  const { next_cursor: cursor } = page as { readonly next_cursor?: string | null };
  return cursor === null || cursor === undefined ? undefined : ["cursor", cursor];
};

/** Loads GET `path` page by page; empty filters are left out. By default pages name their `next_cursor`. */
export function usePages<Page>(
  path: string,
  filter: Readonly<Record<string, string>>,
  { everyMs, headers, next = byCursor }: PagesOptions<Page> = {},
) {
  const api = useApi();
  const query = Object.entries(filter).filter(([, value]) => value !== "");
  const pathOf = (next?: readonly [string, string]) =>
    `${path}?${new URLSearchParams(Object.fromEntries(next ? [...query, next] : query))}`;
  return useInfiniteQuery({
    queryKey: [pathOf(), "pages", ...(headers ? [headers] : [])],
    queryFn: ({ pageParam }) => api.call<Page>("GET", pathOf(pageParam), undefined, headers),
    initialPageParam: undefined as readonly [string, string] | undefined,
    getNextPageParam: (page: Page) => next(page),
    ...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
  });
}

/** Loads several paths; `data` once all have arrived. */
export function useGetAll<Values extends readonly unknown[]>(
  paths: { readonly [Index in keyof Values]: string },
  { everyMs }: Pick<GetOptions, "everyMs"> = {},
): Query<Values> {
  const api = useApi();
  return useQueries({
    queries: (paths as readonly string[]).map((path) => ({
      queryKey: [path],
      queryFn: () => api.call<unknown>("GET", path),
      ...(everyMs === undefined ? {} : { refetchInterval: everyMs }),
    })),
    combine: (results) => ({
      data: results.every(({ data }) => data !== undefined)
        ? (results.map(({ data }) => data) as unknown as Values)
        : undefined,
      error: results.find(({ error }) => error !== null)?.error ?? null,
      dataUpdatedAt: Math.min(...results.map(({ dataUpdatedAt }) => dataUpdatedAt)),
      isFetching: results.some(({ isFetching }) => isFetching),
      refetch: (() => Promise.all(results.map((one) => one.refetch()))) as never,
    }),
  });
}

/** Loads again, after a change, what is shown of paths that begin with one of `prefixes`. */
export function useRefresh(): (...prefixes: readonly string[]) => Promise<void> {
  const client = useQueryClient();
  return (...prefixes) =>
    client.invalidateQueries({
      predicate: ({ queryKey: [path] }) => prefixes.some((prefix) => String(path).startsWith(prefix)),
    });
}

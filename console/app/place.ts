// Filters of a page live in the query of its address.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

/** Values are texts, never JSON. */
export const parseSearch = (text: string): Record<string, string> => Object.fromEntries(new URLSearchParams(text));

export function stringifySearch(search: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(search))
    if (value !== undefined && value !== "") query.set(name, `${value}`);
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

/** Empty: not in the address. Setting one adds no entry to the history. */
export function useFilter(name: string): readonly [value: string, set: (value: string) => void] {
  // Only this filter: a page is not rendered again for the others.
  const value = useSearch({
    strict: false,
    select: (search) => (search as Readonly<Record<string, string | undefined>>)[name] ?? "",
  });
  const navigate = useNavigate();
  const set = useCallback(
    (value: string) =>
      void navigate({
        to: ".",
        search: ((before: Record<string, string>) => ({
          ...before,
          [name]: value === "" ? undefined : value,
        })) as never,
        replace: true,
        resetScroll: false,
      }),
    [name, navigate],
  );
  return [value, set];
}

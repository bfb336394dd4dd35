import { SegmentedControl, Select } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import type { ReactNode } from "react";

/** Texts by value. Pairs where a value is a whole number, which an object would list first. */
export type Options = Readonly<Record<string, string>> | readonly (readonly [value: string, text: string])[];

/** What the library's inputs list. */
export const listOf = (options: Options): { readonly value: string; readonly label: string }[] =>
  (Array.isArray(options) ? options : Object.entries(options)).map(([value, label]) => ({ value, label }));

interface ChoiceProps {
  readonly label: string;
  readonly options: Options;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** One of a few values: buttons, or a list on a phone. */
export function Choice({ label, options, value, onChange }: ChoiceProps): ReactNode {
  const isPhone = useMediaQuery("(max-width: 48em)");
  const data = listOf(options);
  return isPhone ? (
    <Select
      aria-label={label}
      data={data}
      value={value}
      allowDeselect={false}
      onChange={(chosen) => onChange(chosen ?? "")}
      maw={220}
    />
  ) : (
    <SegmentedControl size="xs" aria-label={label} data={data} value={value} onChange={onChange} w="fit-content" />
  );
}

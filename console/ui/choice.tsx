import { SegmentedControl, Select } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import type { ReactNode } from "react";

interface ChoiceProps {
  readonly label: string;
  /** Texts by value. */
  readonly options: Readonly<Record<string, string>>;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** One of a few values: buttons, or a list on a phone. */
export function Choice({ label, options, value, onChange }: ChoiceProps): ReactNode {
  const isPhone = useMediaQuery("(max-width: 48em)");
  const data = Object.entries(options).map(([key, text]) => ({ value: key, label: text }));
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
    <SegmentedControl size="xs" aria-label={label} data={data} value={value} onChange={onChange} />
  );
}

import { Text } from "@mantine/core";
import type { ReactNode } from "react";
import { segmentsOf } from "../../domain/fences.ts";
import { Code } from "../../ui/code.tsx";

/** Text of a model: code blocks with a button that copies them, everything else as it was written. */
export function MessageText({ value }: { value: string }): ReactNode {
  return segmentsOf(value).map(({ kind, text }, at) =>
    kind === "code" ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: segments only grow at the end.
      <Code key={at} value={text} />
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: segments only grow at the end.
      <Text key={at} component="div" size="sm" className="message-text">
        {text}
      </Text>
    ),
  );
}

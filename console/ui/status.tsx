import { Badge } from "@mantine/core";
import type { ReactNode } from "react";
import { styleOf } from "../domain/status.ts";

export function Status({ of, size = "md" }: { of: string; size?: "sm" | "md" | "lg" }): ReactNode {
  const { sign, color } = styleOf(of);
  return (
    <Badge color={color} variant="light" size={size} tt="none" className="status">
      <span aria-hidden="true">{sign}</span> {of}
    </Badge>
  );
}

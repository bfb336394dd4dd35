import { Modal as MantineModal, type ModalProps } from "@mantine/core";
import type { ReactNode } from "react";
import { useVisitor } from "../app/visitor.ts";
import { text } from "../text/common.ts";

/** Dialog of a page. Escape closes only the dialog above it in which the user signs in again. */
export function Modal(props: ModalProps): ReactNode {
  const { isReauthenticating } = useVisitor();
  return (
    <MantineModal closeOnEscape={!isReauthenticating} closeButtonProps={{ "aria-label": text.close }} {...props} />
  );
}

/** Where boxes stand. */
import { graphlib, layout } from "@dagrejs/dagre";
import type { Box, Drawing } from "./drawing.ts";

export type Direction = "LR" | "TB";

export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

const WIDTH = 212;
const LINE = 54;
const ITEM_COLUMNS = 12;
const ITEM = 15;
/** More than these are not shown one by one. */
export const MOST_ITEMS = 240;

/** How large a box is, with its elements shown or not. */
export function sizeOf(box: Box, isOpen: boolean): { width: number; height: number } {
  let height = LINE;
  if (box.rule) height += 18;
  if (box.group) height += 16;
  else if (box.progress !== undefined) height += 10;
  if (isOpen && box.group) {
    const shown = Math.min(box.group.total, MOST_ITEMS);
    height += Math.ceil(shown / ITEM_COLUMNS) * ITEM + 10 + (box.group.total > MOST_ITEMS ? 18 : 0);
  }
  return { width: WIDTH, height };
}

/** Room for what stands on an arrow. */
function labelSize(label: string | undefined): object {
  return label ? { width: Math.min(label.length, 40) * 6.4 + 16, height: 22, labelpos: "c" } : {};
}

export function placed(
  drawing: Drawing,
  open: ReadonlySet<string>,
  direction: Direction,
): Map<string, Place> {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({
    rankdir: direction,
    nodesep: 26,
    ranksep: direction === "LR" ? 64 : 44,
    marginx: 8,
    marginy: 8,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of drawing.boxes) graph.setNode(box.id, sizeOf(box, open.has(box.id)));
  for (const [index, arrow] of drawing.arrows.entries()) {
    if (graph.hasNode(arrow.from) && graph.hasNode(arrow.to) && arrow.from !== arrow.to)
      graph.setEdge(arrow.from, arrow.to, labelSize(arrow.label), String(index));
  }
  layout(graph);
  return new Map(
    drawing.boxes.map((box) => {
      const { x, y, width, height } = graph.node(box.id) as Place;
      return [box.id, { x: x - width / 2, y: y - height / 2, width, height }];
    }),
  );
}

"use strict";
// Turns the heads of tables into buttons that sort the rows; without it tables are as they came.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const key = (row, column) => row.cells[column].dataset.order;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const isNumber = head.classList.contains("number");
      const first = isNumber ? "descending" : "ascending";
      const second = isNumber ? "ascending" : "descending";
      const direction = head.getAttribute("aria-sort") === first ? second : first;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction);
      const sign = direction === "ascending" ? 1 : -1;
      const rows = Array.from(body.rows);
      rows.sort((one, other) => {
        const a = key(one, column), b = key(other, column);
        if (a === "" || b === "") return (a === "") - (b === "");  // what is undefined comes last
        return sign * (isNumber ? Number(a) - Number(b) : a.localeCompare(b));
      });
      body.append(...rows);
    });
  });
}

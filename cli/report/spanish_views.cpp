#include "cli/report/spanish_views.h"

namespace greta {
namespace {

// clang-format off
constexpr ViewText kSpanish[] = {
  // diagnosis
  {"every value of both rows is NaN", "todos los valores de ambas filas son NaN"},
  {"every value of decode's row is NaN", "todos los valores de la fila de decode son NaN"},
  {"every value of prefill's row is NaN", "todos los valores de la fila de prefill son NaN"},
  {"%d of %d values of decode's row are NaN or infinite", "%d de %d valores de la fila de decode son NaN o infinitos"},
  {"%d of %d values of prefill's row are NaN or infinite", "%d de %d valores de la fila de prefill son NaN o infinitos"},
  {"every value of decode's row is 0", "todos los valores de la fila de decode son 0"},
  {"every value of prefill's row is 0", "todos los valores de la fila de prefill son 0"},
  {"decode's row of layer %d is prefill's of layer %d", "la fila de decode de la capa %d es la de prefill de la capa %d"},
  {"decode's %s is %s's %s of this layer", "%s de decode es igual a lo que %s tiene en esta capa como %s"},
  {"%s of this position does not differ beyond rounding: a row before it does", "%s de esta posición no difiere más allá del redondeo: una fila anterior sí"},
  {"%d of %d heads differ, the others by rounding at most", "difieren %d de %d cabezas; las otras, por redondeo como mucho"},
  {"head %d of decode's row is head %d of prefill's", "la cabeza %d de la fila de decode es la cabeza %d de la de prefill"},
  {"the probabilities of decode's %d heads add up to %.6g", "las probabilidades de las %d cabezas de decode suman %.6g"},
  {"the probabilities of prefill's %d heads add up to %.6g", "las probabilidades de las %d cabezas de prefill suman %.6g"},
  {"decode's row has %d zeros more than prefill's, of %d values", "la fila de decode tiene %d ceros más que la de prefill, de %d valores"},
  {"prefill's row has %d zeros more than decode's, of %d values", "la fila de prefill tiene %d ceros más que la de decode, de %d valores"},
  {"the first %d of %d values are equal", "los primeros %d de %d valores son iguales"},
  {"%s's row came out otherwise in %d of %d repeats of the prompt", "la fila de %s salió distinta en %d de %d repeticiones del prompt"},
  {"%d different rows of %s at this place", "%d filas distintas de %s en este lugar"},
  {"in %d repeats of the prompt both rows came out alike", "en %d repeticiones del prompt ambas filas salieron iguales"},
  {"positions up to %d are clean, none from %d on", "las posiciones hasta la %d están limpias, ninguna desde la %d"},
  {"prompts of up to %d tokens are clean, none of %d or more", "los prompts de hasta %d tokens están limpios, ninguno de %d o más"},
  {": a multiple of the batch, ", ": un múltiplo del lote, "},
  {": a multiple of ", ": un múltiplo de "},
  {": one after a multiple of ", ": uno más que un múltiplo de "},
  {"%s's row of position %d is its own of position %d", "la fila de %s de la posición %d es la suya de la posición %d"},
  {"%s's row of position %d is %s's %sof position %d", "la fila de %s de la posición %d es la de %s %sde la posición %d"},
  {"decode's row is %.6g times prefill's, but for a relative distance of %.2g", "la fila de decode es %.6g veces la de prefill, salvo una distancia relativa de %.2g"},
  {"both rows have the same values, in another order", "ambas filas tienen los mismos valores, en otro orden"},
  {"both rows have the same norm and point elsewhere: a relative distance of %.2g", "ambas filas tienen la misma norma y otra dirección: una distancia relativa de %.2g"},
  {"%d of the 32 sums of their sketches are equal", "son iguales %d de las 32 sumas de sus sketches"},
  {"a relative distance of %.2g", "una distancia relativa de %.2g"},
  {"a relative distance of %.2g and no factor", "una distancia relativa de %.2g y ningún factor"},
  {"the rows have %s to do with each other: a relative distance of %.2g", "las filas %s que ver entre sí: una distancia relativa de %.2g"},
  {"nothing", "no tienen nada"},
  {"little", "tienen poco"},
  {"other bits", "otros bits"},

  // What such rows usually come from: table finding
  {"a race, or memory that somebody else writes", "una carrera, o memoria en la que otro escribe"},
  {"it reads what nobody wrote (a buffer, a cache row, a slot beyond the last one), or overflows", "lee lo que nadie escribió (un búfer, una fila de la caché, una ranura tras la última) o desborda"},
  {"an overflow, as of an exponential without its maximum, or single rows or heads that nobody wrote", "un desbordamiento, como el de una exponencial sin su máximo, o filas o cabezas sueltas que nadie escribió"},
  {"nothing was computed into it: a launch that did nothing, or a buffer cleared too late", "no se calculó nada en ella: un lanzamiento que no hizo nada, o un búfer borrado demasiado tarde"},
  {"a position off by one, or a stale row", "una posición desplazada en uno, o una fila obsoleta"},
  {"the row of the token before was not overwritten, or was captured too early", "la fila del token anterior no se sobrescribió, o se capturó demasiado pronto"},
  {"the weights, the cache or the buffer of another layer", "los pesos, la caché o el búfer de otra capa"},
  {"the step between them did nothing, or the wrong buffer was read", "el paso entre ambos no hizo nada, o se leyó el búfer equivocado"},
  {"cache rows before this position that were overwritten, spoiled or read from elsewhere", "filas de la caché anteriores a esta posición sobrescritas, estropeadas o leídas de otro lugar"},
  {"the mapping of heads", "la correspondencia de cabezas"},
  {"the mapping, the stride or the layout of heads", "la correspondencia, el paso o la disposición de las cabezas"},
  {"keys beyond the mask, or a sum over other keys than the probabilities", "claves más allá de la máscara, o una suma sobre otras claves que las probabilidades"},
  {"a scale, an epsilon or a weight that is missing, or applied twice", "una escala, un épsilon o un peso que falta o se aplica dos veces"},
  {"another layout: heads, pairs or rows in another order", "otra disposición: cabezas, pares o filas en otro orden"},
  {"a rotation by other angles: the position, the base frequency or the pairing of RoPE", "una rotación con otros ángulos: la posición, la frecuencia base o el emparejamiento de RoPE"},
  {"values that were left out: a mask, a block or a tail", "valores que se omitieron: una máscara, un bloque o una cola"},
  {"a loop that leaves out or repeats the last values, or single values further on", "un bucle que omite o repite los últimos valores, o valores sueltos más adelante"},
  {"single values: a race, an index that two threads share, a value that was written twice", "valores sueltos: una carrera, un índice que comparten dos hilos, un valor escrito dos veces"},
  {"the same sums in another order (another kernel, route or batch), or a number off in its last digits", "las mismas sumas en otro orden (otro kernel, ruta o lote), o un número que difiere en sus últimas cifras"},
  {"arithmetic or storage of fewer bits: sums or weights in fp16 or bf16", "aritmética o almacenamiento con menos bits: sumas o pesos en fp16 o bf16"},
  {"values from elsewhere: a layout, a stride, an offset, a mapping of heads or other weights", "valores de otro lugar: una disposición, un paso, un desplazamiento, una correspondencia de cabezas u otros pesos"},
  {"the size of a block, a tile or a batch", "el tamaño de un bloque, una tesela o un lote"},
  {"no race: the same every time", "no es una carrera: cada vez lo mismo"},

  // Where the rows differ, and where that comes from
  {"every value", "todos los valores"},
  {"head %d only", "sólo la cabeza %d"},
  {"heads %d-%d", "cabezas %d-%d"},
  {"first value", "el primer valor"},
  {"last value", "el último valor"},
  {"value %d", "el valor %d"},
  {"first %d values", "los primeros %d valores"},
  {"last %d values", "los últimos %d valores"},
  {"values %d to %d", "los valores %d a %d"},
  {"%d of %d values", "%d de %d valores"},
  {", %d %% in head %d%s", ", %d %% en la cabeza %d%s"},
  {", %d %% in values %d to %d", ", %d %% en los valores %d a %d"},
  {"between %s%s and %s%s", "entre %s%s y %s%s"},
  {" of layer ", " de la capa "},
  {"another token at position ", "otro token en la posición "},

  // A pair, and the first fail of a prompt
  {"nan=%d inf=%d, in a row without a partner", "nan=%d inf=%d, en una fila sin pareja"},
  {"several different rows on one side", "varias filas distintas en un lado"},
  {"equal hashes, but other statistics or lengths", "hashes iguales, pero otras estadísticas o longitudes"},
  {"equal samples of all values, but other hashes", "muestras iguales de todos los valores, pero otros hashes"},
  {"without hash", "sin hash"},
  {"no decode row", "no hay fila de decode"},
  {"no prefill row", "no hay fila de prefill"},
  {" here; decode traced it at another position", " aquí; decode la trazó en otra posición"},
  {" here; prefill traced it at another position", " aquí; prefill la trazó en otra posición"},
  {"%d rows have no partner%s", "%d filas no tienen pareja%s"},
  {", though the other side traced such a tensor at another position", ", aunque el otro lado trazó un tensor así en otra posición"},
  {"REFUTED: %s at step %d is rel_l2=%.3g from double arithmetic", "REFUTED: %s en el paso %d está a rel_l2=%.3g de la aritmética doble"},
  {"%s: nan=%d inf=%d, in a row of %s that has no partner", "%s: nan=%d inf=%d, en una fila de %s que no tiene pareja"},
  {" exact", " exacta"},

  // The gate
  {"it did not end (status ", "no terminó (estado "},
  {"1 row that it declares or says it wrote is not there", "falta 1 fila que declara o dice haber escrito"},
  {"%d rows that it declares or says it wrote are not there", "faltan %d filas que declara o dice haber escrito"},
  {", first ", ", la primera "},
  {"an ingest of its files has not ended", "una ingesta de sus archivos no ha terminado"},
  {" lines or files of it were not taken: ", " líneas o archivos suyos no se tomaron: "},
  {"a fault was injected, so it is held against nothing", "se inyectó un fallo, así que no se compara con nada"},
  {"no run of its lineage came before it", "ninguna ejecución de su linaje es anterior"},
  {"no run of its lineage is of a commit before its own", "ninguna ejecución de su linaje es de un commit anterior al suyo"},
  {"how they compare was not worked out", "no se ha calculado cómo se comparan"},
  {"%s at %s%s: %d %s%s%s", "%s en %s%s: %d %s%s%s"},
  {", rel_l2 up to %.3g (tolerance %.3g)", ", rel_l2 hasta %.3g (tolerancia %.3g)"},
  {"; %d comparisons of this layer fail", "; fallan %d comparaciones de esta capa"},

  // Two runs, documents, routes
  {"another model", "otro modelo"},
  {"traced otherwise: ", "trazada de otro modo: "},
  {", not ", ", no "},
  {"other tokens in prompt ", "otros tokens en el prompt "},
  {" did not end (status ", " no terminó (estado "},
  {"an ingest of ", "una ingesta de "},
  {" has not ended", " no ha terminado"},
  {"agrees, but is not the evidence", "concuerda, pero no es la evidencia"},
  {"agrees with the numeric verdict, but is not the evidence", "concuerda con el veredicto numérico, pero no es la evidencia"},
  {"claims PASS without a decided pair", "afirma PASS sin ningún par decidido"},
  {"claims PASS", "afirma PASS"},
  {"undecided where the rows decide", "indeciso donde las filas deciden"},
  {"claims another verdict", "afirma otro veredicto"},
  {"judges a directory level, not a run", "juzga un nivel de directorio, no una ejecución"},
  {"its table fails", "su tabla falla"},
  {"its table pairs nothing", "su tabla no empareja nada"},
  {"its table is empty", "su tabla está vacía"},
  {"the trace is the evidence", "la evidencia es la traza"},
  {"another table is the evidence", "la evidencia es otra tabla"},
  {"run_start lines of several runs: ", "líneas run_start de varias ejecuciones: "},
  {" and ", " y "},
};
// clang-format on

}  // namespace

std::span<const ViewText> spanish_view_texts() { return kSpanish; }

void speak(SQLite::Database& db, Language language) {
  if (language == Language::kSpanish) say_otherwise(db, kSpanish);
}

}  // namespace greta

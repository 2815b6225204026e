package main

// rarity holds, for each pair of neighbouring letters, how rare it is in registered names: 4 times the negative binary
// logarithm of the probability of the second letter after the first, as a character from '#' (0) up. Rows are the letter
// before, the first row for the start of a run; columns the letter after, the last column for its end. Counted over the
// names of about 115,000 domains in good standing in many languages; the counts say nothing of single names.
const rarity = "" +
	"232565666:863694A713:87?=>a" +
	"?845@<8>6C:14/?6H0329:>A9=1" +
	".;;=-B@?1CC2>@/AK26?2ECE8G3" +
	"/@9:1BC.4H34??.?H6948FEJ<C3" +
	"0;9;-<;>/CB;;72<M54;7==D;C/" +
	"49467=:?:E=370;9H.13>;::=B." +
	"/?;@04A@.GE2?A.?O2:43FAA:G5" +
	"/><>.@<62CB5<81=G16;5DAE:B." +
	"-><<-BBC/DA<=;.=E8:64D>H:G1" +
	"3;265:7DBA946,49C622@8E=C=4" +
	"->89/>=>/=;=:8.;E>6;1A>@;?4" +
	"/<;>.>A</B=7<;2<M8385@>K7E-" +
	"/=;7.>?B.H?2<A0<NB765?CH8E0" +
	",7;?-B>B0FC?8>05K?6>6EBG7F2" +
	"2=52/;1?2B8:>94>I@30<=@E<A/" +
	"<:77>98?;A835.46L/44298=?B2" +
	"/@;>0@A52HB2>?/4O0687EDI>J1" +
	"7=;<?@>=1EF9><:<;:::'?=?B@/" +
	"/<77-?:A0G9:980<K;537;@H9C0" +
	"3<5=1?@32F:<:>55D@5.6B>J<D," +
	"0>9A.?A30GC;=?0=O2476==E6B/" +
	"65645>:A6A;44/=5J/01CAC>>?3" +
	"/B<@)EBC+JC>?>1>N;<>>DDG>I2" +
	"-<;>->A7.GA>>6/;M;1=>B?B>E2" +
	"575;6==:0AB:9;72D=629:A48A*" +
	"28576:;<8B?86636H:258?;CB?*" +
	"/;<;.>>30>=:<90<AA:95A=@76/"

const (
	letters  = 26
	startRow = 0
	endCol   = letters
)

// rarityOf returns the mean rarity of the pairs in run, edges included, in quarters of a bit. Run holds a to z only.
func rarityOf(run string) int {
	if run == "" {
		return 0
	}
	sum, row := 0, startRow
	for i := range len(run) {
		column := int(run[i] - 'a')
		sum += int(rarity[row*(letters+1)+column] - '#')
		row = column + 1
	}
	sum += int(rarity[row*(letters+1)+endCol] - '#')
	return sum / (len(run) + 1)
}
